"""A kubelet for tests: its nodes look like GKE's, its containers are processes of this machine.

Real is everything that the API server, the scheduler, the controllers and JobSet see of a node. There are no images but
folders of this machine, no pod network but a loopback address per pod, and no device plugin.
"""

from kubelet.images import Image, python_image
from kubelet.kubelet import ProcessKubelet
from kubelet.machines import cpu_nodes, slice_nodes
from kubelet.namespaces import Namespaces
from kubelet.rewriting import Rewriting

__all__ = ["Image", "Namespaces", "ProcessKubelet", "Rewriting", "cpu_nodes", "python_image", "slice_nodes"]
