"""The launcher's only room that talks to Kubernetes and Google."""
