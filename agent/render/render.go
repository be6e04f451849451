// Package render makes the configuration files of the service programs from what the node was told: one pure function a
// program, called by its unit as ExecStartPre=spore-agent render NAME.
//
// It runs as the program's user, inside the unit's sandbox; files go to the unit's RuntimeDirectory and secrets come from
// its CREDENTIALS_DIRECTORY. Rendering twice gives the same bytes.
package render

import (
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sort"

	"spore/agent/etcd/origin"
	"spore/cluster/facts"
)

// File is one file of a program's configuration.
type File struct {
	Data []byte
	Mode fs.FileMode
}

// Input is all that a configuration may depend on.
type Input struct {
	Cluster *facts.Cluster
	Node    *facts.Node
	// Hosts is the hosts file of the cluster part: address, FQDN and further names of every node.
	Hosts io.Reader
	// Addresses are the node's own addresses as they are now: the configured ones, or those of the DHCP lease.
	Addresses []netip.Addr
	// Memory is the machine's memory in bytes.
	Memory uint64
	// Dir is the directory that the files will lie in, such as /run/mosquitto.
	Dir string
	// Secret returns a secret of the node's bundle.
	Secret func(ref string) ([]byte, error)
	// Authority returns a file of public keys or certificates that every node has, such as kubernetes-client.crt.
	Authority func(name string) ([]byte, error)
	// EtcdOrigin returns how the data of this master's etcd began (package origin); nil is as if that was not known.
	EtcdOrigin func() (*origin.Origin, error)
	// SecretPath is the file of a secret of the node's bundle, as the program will see it.
	SecretPath func(ref string) string
}

// programs is the table of templates, by the names of services.Programs.
var programs = map[string]func(Input) (map[string]File, error){
	"calico-controllers":      calicoControllers,
	"calico-node":             calicoNode,
	"ceph-bootstrap":          cephBootstrap,
	"ceph-mds":                cephMDS,
	"ceph-mgr":                cephMgr,
	"ceph-mon":                cephMon,
	"ceph-osd":                cephOSD,
	"cephfs-controller":       cephfsController,
	"cephfs-node":             cephfsNode,
	"cephfs-provisioner":      cephfsProvisioner,
	"cluster-dns":             clusterDNS,
	"containerd":              containerd,
	"coredns":                 coredns,
	"etcd":                    etcd,
	"kafka":                   kafka,
	"kube-apiserver":          kubeAPIServer,
	"kube-balancer":           balancer,
	"kube-controller-manager": kubeControllerManager,
	"kube-proxy":              kubeProxy,
	"kube-scheduler":          kubeScheduler,
	"kubelet":                 kubelet,
	"mosquitto":               mosquitto,
	"rbd-controller":          rbdController,
	"rbd-node":                rbdNode,
	"rbd-provisioner":         rbdProvisioner,
}

// Names lists the programs that can be rendered, sorted.
func Names() []string {
	names := make([]string, 0, len(programs))
	for n := range programs {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Render returns the configuration files of a program by their paths below Input.Dir.
func Render(name string, in Input) (map[string]File, error) {
	fn, ok := programs[name]
	if !ok {
		return nil, fmt.Errorf("render %s: no such program; there are %v", name, Names())
	}
	files, err := fn(in)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return files, nil
}

// Write puts the files into dir, each whole or not at all.
func Write(dir string, files map[string]File) error {
	names := make([]string, 0, len(files))
	for n := range files {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if filepath.Dir(name) != "." { // dir itself is systemd's to make
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
		if err := write(path, files[name]); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

func write(path string, file File) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".render-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err = f.Chmod(file.Mode); err != nil {
		return err
	}
	if _, err = f.Write(file.Data); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
