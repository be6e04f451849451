package node

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"

	"spore/services/kubernetes"
	"spore/services/rendering"
)

const (
	// cniConfig is where calico-node lays the network configuration once the node can take pods.
	cniConfig = "/run/cni/net.d"
	// cniPlugins is where the image has the plugins.
	cniPlugins = "/usr/lib/cni"
	// containerdSocket is where containerd listens unless it is told otherwise.
	containerdSocket = "/run/containerd/containerd.sock"
	// pauseImage is the container that holds a pod's namespaces; the image brings it.
	pauseImage = "spore.local/pause:1"
)

// unusedContainerd are plugins that would only cost memory, or need what the image has not.
var unusedContainerd = []string{
	"io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs", "io.containerd.snapshotter.v1.blockfile",
	"io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.native", "io.containerd.nri.v1.nri",
	"io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
	"io.containerd.monitor.container.v1.restart", "io.containerd.image-verifier.v1.bindir",
	"io.containerd.internal.v1.opt", // would want to write to /opt
}

// containerd renders containerd-config.toml(5), version 4, and a registry configuration that leads nowhere: every image is
// in the node's image already, and a name that is not there must not be asked for outside.
func containerd(in rendering.Input) (map[string]rendering.File, error) {
	registries := filepath.Join(in.Dir, "registries")
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Rendered by spore-agent; made again at each start.")
	line("version = 4")
	line("root = %q", "/var/lib/containerd")
	line("state = %q", "/run/containerd")
	line("disabled_plugins = [")
	for _, p := range unusedContainerd {
		line("  %q,", p)
	}
	line("]")
	line("")
	// Whoever attaches to a container is led to kubelet, and kubelet leads on to this port.
	line("[plugins.\"io.containerd.grpc.v1.cri\"]")
	line("  stream_server_address = %q", loopback)
	line("  stream_server_port = %q", strconv.Itoa(kubernetes.PortContainerd)) // a string, and any free port unless it is said
	line("")
	line("[plugins.\"io.containerd.server.v1.metrics\"]")
	line("  address = %q", netip.AddrPortFrom(loopback, kubernetes.PortContainerdMetrics))
	line("")
	// Else each question for metrics would read the cgroups of all containers. kubelet tells of them.
	line("[plugins.\"io.containerd.monitor.task.v1.cgroups\"]")
	line("  no_prometheus = true")
	line("")
	line("[plugins.\"io.containerd.cri.v1.images\"]")
	line("  snapshotter = \"overlayfs\"")
	line("  [plugins.\"io.containerd.cri.v1.images\".pinned_images]")
	line("    sandbox = %q", pauseImage)
	line("  [plugins.\"io.containerd.cri.v1.images\".registry]")
	line("    config_path = %q", registries)
	line("")
	line("[plugins.\"io.containerd.transfer.v1.local\"]")
	line("  config_path = %q", registries)
	line("")
	line("[plugins.\"io.containerd.cri.v1.runtime\"]")
	// Else containerd asks each container and pod every second for its processor time, by a call to its shim, for
	// statistics that kubelet takes from its own cAdvisor. This is how often that reads them.
	line("  stats_collect_period = %q", "10s")
	line("  [plugins.\"io.containerd.cri.v1.runtime\".cni]")
	line("    bin_dirs = [%q]", cniPlugins)
	line("    conf_dir = %q", cniConfig)
	line("  [plugins.\"io.containerd.cri.v1.runtime\".containerd]")
	line("    default_runtime_name = \"runc\"")
	line("    [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc]")
	line("      runtime_type = \"io.containerd.runc.v2\"")
	line("      [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc.options]")
	line("        BinaryName = \"/usr/sbin/runc\"")
	line("        SystemdCgroup = true")
	return map[string]rendering.File{
		"config.toml": {Data: b.Bytes(), Mode: 0o644},
		// containerd's docs/hosts.md: _default stands for every registry without a folder of its own, and server for all of
		// its hosts. Port 9 (discard) of the loopback refuses at once.
		"registries/_default/hosts.toml": {Data: []byte("# Images come with the node's image, never from a registry.\nserver = \"http://127.0.0.1:9\"\n"), Mode: 0o644},
	}, nil
}
