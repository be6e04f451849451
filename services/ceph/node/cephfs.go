package node

import (
	"net/netip"
	"strings"

	"spore/services/ceph"
	"spore/services/rendering"
)

const cephfsKey = "ceph-kubernetes-cephfs-node-key"

// cephfsUser is the argument that says who the node is to Ceph.
func cephfsUser(in rendering.Input) string {
	return "--user=" + strings.TrimPrefix(FSUser(in.Node.Name), "client.")
}

// cephfsController renders how the driver of shared volumes reaches Ceph: as the node's own user, who may have volumes
// made in the group of Kubernetes' file systems.
func cephfsController(in rendering.Input) (map[string]rendering.File, error) {
	files, err := cephFiles(in, []CephKey{{FSUser(in.Node.Name), cephfsKey}})
	if err != nil {
		return nil, err
	}
	files["arguments"], err = rendering.Arguments([]string{cephfsUser(in)})
	return files, err
}

// cephfsProvisioner renders Kubernetes' provisioner for shared volumes, who is the same client of Kubernetes as that for others.
func cephfsProvisioner(in rendering.Input) (map[string]rendering.File, error) {
	return provisioner(in, "/run/cephfs-controller/csi.sock")
}

// cephfsNode renders what the kernel has to know to mount, and what the node is called. The key is a file of its own: a command
// line is seen by everybody on the machine.
func cephfsNode(in rendering.Input) (map[string]rendering.File, error) {
	fsid, err := cephSecret(in, "ceph-fsid", uuidForm)
	if err != nil {
		return nil, err
	}
	key, err := cephSecret(in, cephfsKey, cephKeyForm)
	if err != nil {
		return nil, err
	}
	mons, err := Monitors(in)
	if err != nil {
		return nil, err
	}
	var endpoints []string
	for _, m := range mons {
		endpoints = append(endpoints, netip.AddrPortFrom(m.Addr, ceph.PortMon).String())
	}
	args, err := rendering.Arguments([]string{cephfsUser(in), "--node=" + in.Node.Name, "--fsid=" + fsid, "--monitors=" + strings.Join(endpoints, "/")})
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{"arguments": args, "key": {Data: []byte(key + "\n"), Mode: 0o600}}, nil
}
