# A cluster that trains: its network, its node pools, the bucket, and a place for images. Who may do what stands in
# identities.tf. The state of Terraform lies on this machine; name a backend of your own where several people apply it.
#
#   terraform -chdir=deployments/gke/terraform init
#   terraform -chdir=deployments/gke/terraform apply -var project=my-project -var bucket=my-bucket

terraform {
  required_version = ">= 1.9"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 6.50"
    }
  }
}

provider "google" {
  project = var.project
}

locals {
  region  = regex("^[a-z]+-[a-z]+[0-9]+", var.location)
  is_zone = local.region != var.location
  apis    = ["artifactregistry", "cloudquotas", "compute", "container", "iam", "monitoring", "storage"]

  # What follows from a pool's machine type and topology: a slice of several hosts has as many as its chips need.
  chips = { for name, pool in var.tpu_pools : name => tonumber(regex("-([0-9]+)t$", pool.machine_type)[0]) }
  sides = { for name, pool in var.tpu_pools : name => pool.topology == null ? [] : split("x", pool.topology) }
  hosts = {
    for name, sides in local.sides : name => length(sides) == 0
    ? var.tpu_pools[name].slices
    : tonumber(sides[0]) * tonumber(sides[1]) * tonumber(try(sides[2], 1)) / local.chips[name]
  }
  zones = { for name, pool in var.tpu_pools : name => pool.zone != null ? pool.zone : local.is_zone ? var.location : null }
}

resource "google_project_service" "used" {
  for_each           = toset(local.apis)
  project            = var.project
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false
}

# VPC-native: pods and services have addresses of the network's own.
resource "google_compute_network" "training" {
  name                    = var.cluster
  project                 = var.project
  auto_create_subnetworks = false
  mtu                     = 8896 # hosts of a slice talk to each other much
  depends_on              = [google_project_service.used]
}

resource "google_compute_subnetwork" "training" {
  name                     = var.cluster
  project                  = var.project
  region                   = local.region
  network                  = google_compute_network.training.id
  ip_cidr_range            = "10.0.0.0/20"
  private_ip_google_access = true

  secondary_ip_range {
    range_name    = "pods"
    ip_cidr_range = "10.16.0.0/14"
  }
  secondary_ip_range {
    range_name    = "services"
    ip_cidr_range = "10.20.0.0/20"
  }
}

resource "google_container_cluster" "training" {
  name                     = var.cluster
  project                  = var.project
  location                 = var.location
  network                  = google_compute_network.training.id
  subnetwork               = google_compute_subnetwork.training.id
  networking_mode          = "VPC_NATIVE"
  remove_default_node_pool = true # pools are resources of their own, below
  initial_node_count       = 1
  deletion_protection      = var.deletion_protection

  ip_allocation_policy {
    cluster_secondary_range_name  = "pods"
    services_secondary_range_name = "services"
  }
  workload_identity_config {
    workload_pool = "${var.project}.svc.id.goog"
  }
  release_channel {
    channel = var.release_channel
  }
  addons_config {
    gcs_fuse_csi_driver_config { # volumes that are gs://
      enabled = true
    }
  }
  control_plane_endpoints_config {
    dns_endpoint_config { # gke://… is reached from anywhere, by whom IAM lets
      allow_external_traffic = true
    }
  }
  node_config { # of the pool that is removed at once: it must not run as the project's default account either
    service_account = google_service_account.account["prefect-tpu-node"].email
  }
}

# For everything without chips.
resource "google_container_node_pool" "cpu" {
  name     = "cpu"
  project  = var.project
  location = var.location
  cluster  = google_container_cluster.training.name

  autoscaling {
    min_node_count = var.cpu_nodes.min
    max_node_count = var.cpu_nodes.max
  }
  node_config {
    machine_type    = var.cpu_machine_type
    service_account = google_service_account.account["prefect-tpu-node"].email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }
  depends_on = [google_project_iam_member.role] # nodes that may not write their logs are not healthy
}

# One pool a slice where a slice has several hosts: they come, go and fail as one.
resource "google_container_node_pool" "tpu" {
  for_each           = var.tpu_pools
  name               = each.key
  project            = var.project
  location           = var.location
  cluster            = google_container_cluster.training.name
  node_locations     = local.zones[each.key] == null ? null : [local.zones[each.key]]
  initial_node_count = 0
  max_pods_per_node  = 15 # a host runs one pod of a job and a few of the system; addresses are short with large slices

  autoscaling {
    min_node_count  = 0
    max_node_count  = local.hosts[each.key]
    location_policy = "ANY"
  }

  dynamic "placement_policy" { # never for slices of one host: GKE refuses it there
    for_each = each.value.topology == null ? [] : [each.value.topology]
    content {
      type         = "COMPACT"
      tpu_topology = placement_policy.value
    }
  }

  node_config {
    machine_type    = each.value.machine_type
    spot            = each.value.spot
    disk_type       = can(regex("^(ct6e|tpu7)", each.value.machine_type)) ? "hyperdisk-balanced" : null
    service_account = google_service_account.account["prefect-tpu-node"].email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

    gvnic {
      enabled = true
    }
    workload_metadata_config {
      mode = "GKE_METADATA"
    }
    dynamic "reservation_affinity" {
      for_each = each.value.reservation == null ? [] : [each.value.reservation]
      content {
        consume_reservation_type = "SPECIFIC_RESERVATION"
        key                      = "compute.googleapis.com/reservation-name"
        values                   = [reservation_affinity.value]
      }
    }
  }

  depends_on = [google_project_iam_member.role]

  lifecycle {
    ignore_changes = [initial_node_count]

    precondition {
      condition     = local.zones[each.key] != null
      error_message = "Pool ${each.key} needs a zone: ${var.location} is a region, and a slice lies in one zone."
    }
    precondition {
      condition     = local.hosts[each.key] == floor(local.hosts[each.key]) && (each.value.topology == null || local.hosts[each.key] > 1)
      error_message = "Pool ${each.key}: ${coalesce(each.value.topology, "no topology")} of ${each.value.machine_type} is no slice of several hosts. Leave the topology out where one host is the slice."
    }
  }
}

resource "google_storage_bucket" "jobs" {
  name                        = var.bucket
  project                     = var.project
  location                    = local.region # beside the chips
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  soft_delete_policy { # checkpoints come and go, and each would be paid for a week longer
    retention_duration_seconds = 0
  }
}

resource "google_artifact_registry_repository" "images" {
  repository_id = "prefect-tpu"
  project       = var.project
  location      = local.region
  format        = "DOCKER"
  depends_on    = [google_project_service.used]
}

output "cluster" {
  description = "What --cluster is told."
  value       = "gke://${var.project}/${var.location}/${google_container_cluster.training.name}"
}

output "output" {
  description = "What --output is told."
  value       = "gs://${google_storage_bucket.jobs.name}/jobs"
}

output "images" {
  description = "Where images go."
  value       = "${local.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.repository_id}"
}

output "names" {
  description = "For sed: these names instead of those in the manifests."
  value = join("; ", [
    "s#us-east5-docker[.]pkg[.]dev#${local.region}-docker.pkg.dev#g",
    "s#my-project#${var.project}#g",
    "s#us-east5-b#${var.location}#g",
    "s#my-cluster#${google_container_cluster.training.name}#g",
    "s#my-bucket#${google_storage_bucket.jobs.name}#g",
    "s#: ml$#: ${var.namespace}#",
  ])
}
