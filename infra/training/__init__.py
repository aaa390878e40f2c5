"""What a program imports; JAX is loaded lazily, Prefect never."""
