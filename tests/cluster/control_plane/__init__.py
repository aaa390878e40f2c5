"""A real Kubernetes control plane as plain processes of this machine: no root, container engine or network needed."""

from control_plane.api import Api, ApiError, Object
from control_plane.plane import ControlPlane
from control_plane.processes import DidNotStart, dies_with_parent, quick_folder
from control_plane.programs import Pace

__all__ = ["Api", "ApiError", "ControlPlane", "DidNotStart", "Object", "Pace", "dies_with_parent", "quick_folder"]
