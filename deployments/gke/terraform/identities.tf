# Who may do what in Google Cloud: an account for each of five parts, with no more than it needs. The same table stands
# in infra/gcp/google_permissions.py, and a test compares them. What they may do in the cluster itself is in rbac.yaml.

locals {
  # No role of Google's has so little: the cluster's address and its node pools. Pools have no permission of their own:
  # whoever makes them may change the cluster.
  permissions = [
    "container.clusters.get",
    "container.clusters.connect",
    "container.clusters.update",
    "container.operations.get",
    "container.operations.list",
  ]

  accounts = {
    prefect-tpu-driver = "Drives jobs: a pipeline, a person, a worker of Prefect"
    prefect-tpu-worker = "Runs flows of a work pool: worker.yaml"
    prefect-tpu-host   = "Programs of jobs"
    prefect-tpu-reaper = "Ends what nobody wants any more"
    prefect-tpu-node   = "The nodes themselves"
  }
  in_cluster = ["prefect-tpu-driver", "prefect-tpu-worker", "prefect-tpu-host", "prefect-tpu-reaper"]
  with_pools = ["prefect-tpu-driver", "prefect-tpu-worker", "prefect-tpu-reaper"]
  driving    = ["prefect-tpu-driver", "prefect-tpu-worker"]

  looking = ["roles/cloudquotas.viewer", "roles/monitoring.viewer"] # how many chips there are, and in use
  project_roles = {
    prefect-tpu-driver = local.looking
    prefect-tpu-worker = local.looking
    prefect-tpu-node   = ["roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"]
  }
  project_members = {
    for one in flatten([
      for account, roles in local.project_roles : [for role in roles : { account = account, role = role }]
    ]) : "${one.account} ${one.role}" => one
  }
}

resource "google_service_account" "account" {
  for_each     = local.accounts
  account_id   = each.key
  project      = var.project
  display_name = each.value
  depends_on   = [google_project_service.used]
}

resource "google_project_iam_custom_role" "pools" {
  role_id     = "prefectTpuPools"
  project     = var.project
  title       = "prefect-tpu: node pools"
  description = "Reaches a cluster, and makes and gives back its node pools"
  permissions = local.permissions
}

resource "google_project_iam_member" "pools" {
  for_each = toset(local.with_pools)
  project  = var.project
  role     = google_project_iam_custom_role.pools.name
  member   = google_service_account.account[each.key].member
}

resource "google_project_iam_member" "role" {
  for_each = local.project_members
  project  = var.project
  role     = each.value.role
  member   = google_service_account.account[each.value.account].member
}

# Jobs, checkpoints and results: all of them write there.
resource "google_storage_bucket_iam_member" "jobs" {
  for_each = toset(local.in_cluster)
  bucket   = google_storage_bucket.jobs.name
  role     = "roles/storage.objectUser"
  member   = google_service_account.account[each.key].member
}

# The nodes of a pool run as this account; whoever makes the pool must be allowed to give it to them.
resource "google_service_account_iam_member" "gives_nodes" {
  for_each           = toset(local.driving)
  service_account_id = google_service_account.account["prefect-tpu-node"].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.account[each.key].member
}

# Accounts of the cluster's namespace are these to Google: workload-identity.yaml says the same from the other side.
resource "google_service_account_iam_member" "identity" {
  for_each           = toset(local.in_cluster)
  service_account_id = google_service_account.account[each.key].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${google_container_cluster.training.workload_identity_config[0].workload_pool}[${var.namespace}/${each.key}]"
}
