package cis

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/pki"
	"spore/services"
	"spore/services/kubernetes/kubeapi"
	"spore/services/service"
	"spore/test/kubecluster"
)

// Where things lie on a node.
const (
	unitDir    = "/etc/systemd/system"
	pkiDir     = "/run/spore/cluster/" + pki.PublicDir
	secretsDir = "/run/spore/secrets"
	// kubeletConfig is the kubeconfig that kubelet writes when it has its certificate.
	kubeletConfig = "/var/lib/kubelet/kubeconfig"
	etcdData      = "/var/lib/etcd"
)

// programs are those whose command lines are looked at.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}

// Rendered is the evidence of a configuration: what spore-agent renders for its first master and its first worker, and
// what the units say of owners and modes. units is the folder of the units.
func Rendered(c *kubecluster.Cluster, units fs.FS) (Evidence, error) {
	var e Evidence
	for role, node := range map[string]*Node{"control-plane": &e.Master, "worker": &e.Worker} {
		n, err := c.Node(role)
		if err != nil {
			return e, err
		}
		if *node, err = renderedNode(c, n, units); err != nil {
			return e, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	objects, err := kubeapi.Objects(&c.Shared)
	if err != nil {
		return e, err
	}
	// As the API would give them back.
	data, err := json.Marshal(objects)
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(data, &e.Objects)
}

func renderedNode(c *kubecluster.Cluster, n *facts.Node, units fs.FS) (Node, error) {
	out := Node{Arguments: map[string][]string{}, Configs: map[string]json.RawMessage{}, Files: map[string]File{}}
	for name := range c.Tree.Public().Files() {
		out.Files["/run/spore/cluster/"+name] = File{"644", "root:root"} // clusterpart.Build
	}
	for _, row := range services.NodePrograms(&c.Shared, n) {
		if err := out.addProgram(c, n, row, units); err != nil {
			return out, fmt.Errorf("%s: %w", row.Name, err)
		}
	}
	out.Files[kubeletConfig] = File{"600", "root:root"} // client-go's clientcmd.WriteToFile
	return out, nil
}

// addProgram adds what a program's unit makes and starts.
func (n *Node) addProgram(c *kubecluster.Cluster, node *facts.Node, row service.Program, units fs.FS) error {
	data, err := fs.ReadFile(units, row.Unit)
	if err != nil {
		return err
	}
	unit := settings(string(data))
	n.Files[path.Join(unitDir, row.Unit)] = File{"644", "root:root"} // builder/recipe, lay
	owner := row.User + ":" + row.User
	for _, state := range strings.Fields(unit["StateDirectory"]) {
		n.Files["/var/lib/"+state] = File{strings.TrimPrefix(unit["StateDirectoryMode"], "0"), owner}
	}
	for _, ref := range row.Secrets {
		n.Files[path.Join(secretsDir, row.Name, ref)] = File{"600", "root:root"} // agent/secrets
	}
	runtime, _, _ := strings.Cut(unit["RuntimeDirectory"], " ") // the first is where it renders
	if runtime == "" || !strings.Contains(unit["ExecStartPre"], "render "+row.Name) {
		return nil
	}
	dir := path.Join("/run", runtime)
	n.Files[dir] = File{strings.TrimPrefix(unit["RuntimeDirectoryMode"], "0"), owner}
	files, err := c.Render(node, row.Name, dir)
	if err != nil {
		return err
	}
	for name, f := range files {
		at := path.Join(dir, name)
		n.Files[at] = File{fmt.Sprintf("%o", f.Mode.Perm()), owner}
		if json.Valid(f.Data) {
			n.Configs[at] = json.RawMessage(f.Data)
		}
	}
	if row.Name == "calico-node" {
		for _, name := range []string{"calico-kubeconfig", "10-calico.conflist"} { // agent, kubernetes-network
			n.Files[path.Join("/run/cni/net.d", name)] = File{"600", "root:root"}
		}
	}
	words, err := kubecluster.CommandLine(string(data), &c.Shared, node, files)
	if err != nil {
		return err
	}
	n.Arguments[row.Name] = words[1:]
	return nil
}

// settings are those of a unit; of one that stands there several times, all lines.
func settings(unit string) map[string]string {
	out := map[string]string{}
	for _, line := range strings.Split(unit, "\n") {
		if key, v, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			if out[key] != "" {
				v = out[key] + "\n" + v
			}
			out[key] = v
		}
	}
	return out
}

// RenderedFrom is Rendered for a folder of configuration and the folder of the units.
func RenderedFrom(config, units string) (Evidence, error) {
	c, err := kubecluster.Load(config)
	if err != nil {
		return Evidence{}, err
	}
	return Rendered(c, os.DirFS(units))
}

// RenderedWith is RenderedFrom with that node as the worker. Of its roles that one alone counts: checks are of Kubernetes.
func RenderedWith(worker, config, units string) (Evidence, error) {
	c, err := kubecluster.Load(config)
	if err != nil {
		return Evidence{}, err
	}
	const role = "worker"
	i := slices.IndexFunc(c.Nodes, func(n facts.Node) bool { return n.Name == worker && slices.Contains(n.Roles, role) })
	if i < 0 {
		return Evidence{}, fmt.Errorf("no node %s has the role %s", worker, role)
	}
	own := c.Nodes[i]
	own.Roles = []string{role}
	c.Nodes = append([]facts.Node{own}, slices.Delete(slices.Clone(c.Nodes), i, i+1)...)
	return Rendered(c, os.DirFS(units))
}
