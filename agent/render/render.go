// Package render makes the configuration files of the service programs from what the node was told: one pure function a
// program, called by its unit as ExecStartPre=spore-agent render NAME.
//
// It runs as the program's user, inside the unit's sandbox; files go to the unit's RuntimeDirectory and secrets come from
// its CREDENTIALS_DIRECTORY. Rendering twice gives the same bytes.
package render

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"spore/services/node"
	"spore/services/rendering"
	"spore/storage/atomicfile"
)

// File and Input are those of package rendering, for the services whose rendering is here still.
type (
	File  = rendering.File
	Input = rendering.Input
)

// programs is the table of templates, by the names of services.Programs: those of the services, and those that are here still.
var programs = func() map[string]rendering.Func {
	out := here()
	maps.Copy(out, node.Renderings())
	return out
}()

// here are those of Kubernetes and Kafka.
func here() map[string]rendering.Func {
	return map[string]rendering.Func{
		"calico-controllers":      calicoControllers,
		"calico-node":             calicoNode,
		"cluster-dns":             clusterDNS,
		"containerd":              containerd,
		"etcd":                    etcd,
		"kafka":                   kafka,
		"kube-apiserver":          kubeAPIServer,
		"kube-balancer":           balancer,
		"kube-controller-manager": kubeControllerManager,
		"kube-proxy":              kubeProxy,
		"kube-scheduler":          kubeScheduler,
		"kubelet":                 kubelet,
	}
}

// Names lists the programs that can be rendered, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(programs))
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
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		path := filepath.Join(dir, name)
		if filepath.Dir(name) != "." { // dir itself is systemd's to make
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
		// dir lies in a tmpfs.
		if err := atomicfile.Replace(path, files[name].Data, files[name].Mode, atomicfile.Unsynced); err != nil {
			return err
		}
	}
	return nil
}
