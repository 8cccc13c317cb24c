"""Images for kind nodes and virtual control planes, built on this machine from pinned programs, without an image
registry.

``python -m tools.images kind|vcluster build`` puts an image into the cache, where the backends ``kind`` and
``vcluster`` find it (``kailab.cluster.built_images``). The build of a node image, step by step:

    requirements            what is missing on this machine, reported before anything is acquired or built
    build_inputs            programs, Debian packages and the image name that follows from them
    node_image              runs the build in a process with its own mounts and process ids, and records the result
    node_build              the build in that process; uses debian, node_files, pod_network, containerd
    control_plane_images    the images inside a node image, which kubeadm runs as pods
    layers                  writes an image of one layer as an archive

``vcluster_image`` builds the image of a virtual control plane.
"""
