# What is yours. Only `project` and `bucket` have no usual value.

variable "project" {
  description = "The project of Google Cloud, by its id."
  type        = string
}

variable "bucket" {
  description = "The bucket of all jobs; its name is unique in all of Google Cloud."
  type        = string
}

variable "location" {
  description = "A zone, or a region: us-east5-b, us-east5. Where the chips are: https://cloud.google.com/tpu/docs/regions-zones"
  type        = string
  default     = "us-east5-b"

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+(-[a-z])?$", var.location))
    error_message = "Name a region such as us-east5, or a zone such as us-east5-b."
  }
}

variable "cluster" {
  description = "The name of the cluster, of its network and of its subnetwork."
  type        = string
  default     = "my-cluster"
}

variable "namespace" {
  description = "Where jobs run; that of the manifests."
  type        = string
  default     = "ml"
}

variable "release_channel" {
  description = "Which versions GKE gives the cluster: RAPID, REGULAR or STABLE."
  type        = string
  default     = "REGULAR"
}

variable "cpu_machine_type" {
  description = "For everything without chips: JobSet, Kueue, workers of Prefect, the reaper. The head of a Pathways job wants n2-standard-64."
  type        = string
  default     = "n2-standard-8"
}

variable "cpu_nodes" {
  description = "How many of these at least and at most, in each zone."
  type        = object({ min = number, max = number })
  default     = { min = 1, max = 4 }
}

variable "tpu_pools" {
  description = <<-EOT
    Node pools of TPUs that stay, by name; empty where jobs make their own (`make_pools`). They are empty, and cost
    nothing, until a job wants them.

    machine_type: of GKE, such as ct6e-standard-4t.
    topology: of a slice of several hosts, such as 4x4; a pool is one such slice. Left out for slices of one host.
    slices: of one host each, how many at most.
    zone: where; needed in a cluster of a region.
    spot: whether they may be taken away.
    reservation: the name of one, or projects/P/reservations/R of a shared one.
  EOT
  type = map(object({
    machine_type = string
    topology     = optional(string)
    slices       = optional(number, 1)
    zone         = optional(string)
    spot         = optional(bool, false)
    reservation  = optional(string)
  }))
  default = {}

  validation {
    condition     = alltrue([for name in keys(var.tpu_pools) : can(regex("^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$", name))])
    error_message = "The name of a pool has at most 40 small letters, digits and hyphens."
  }
  validation {
    condition     = alltrue([for pool in values(var.tpu_pools) : !(pool.spot && pool.reservation != null)])
    error_message = "A pool is spot or reserved, never both."
  }
  validation {
    condition     = alltrue([for pool in values(var.tpu_pools) : can(regex("-[0-9]+t$", pool.machine_type))])
    error_message = "A machine type of TPUs ends with its number of chips, as in ct6e-standard-4t."
  }
  validation {
    condition = alltrue([
      for pool in values(var.tpu_pools) : !(pool.topology != null && startswith(pool.machine_type, "tpu7"))
    ])
    error_message = "A slice of several hosts of tpu7 or tpu7x needs a workload policy, which this page does not make: let jobs make their pools, or make it with gcloud."
  }
}

variable "deletion_protection" {
  description = "Whether `terraform destroy` leaves the cluster standing."
  type        = bool
  default     = true
}
