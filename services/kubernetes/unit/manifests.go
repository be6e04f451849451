package unit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/applyset"
	"spore/services/kubernetes/kubeapi"
)

// keeper keeps the objects of manifests/, and says how they are in a file. It is nil where they cannot be read: another
// master may read them, and what else the cluster needs is not kept from it.
func keeper(m *node.Machine, client *kubeapi.Client, c *facts.Cluster, n *facts.Node) *applyset.Keeper {
	tell := func(s applyset.State) {
		if err := applyset.Write(m.Root.At(applyset.File), s); err != nil {
			m.Say(err.Error())
		}
	}
	objects, data, err := m.Part.Manifests()
	if err != nil {
		reason := fmt.Sprintf("this master applies none of them: %v", err)
		m.Say("manifests: " + reason)
		tell(applyset.State{Count: 1, Problems: []applyset.Problem{{Reason: reason}}})
		return nil
	}
	sum := sha256.Sum256(data)
	return &applyset.Keeper{
		API: client, Node: n.Name, Objects: objects, Slow: kubernetes.Of(c.Services).Slow(), Say: m.Say, Tell: tell,
		Alone:         len(c.Members["control-plane"]) == 1,
		Configuration: applyset.Configuration{Hash: hex.EncodeToString(sum[:]), Serial: serial(m)},
	}
}

// serial is the number of the update that brought what is shown as the cluster part; 0 where an image did, or where the
// node went back to what it had before its last update.
func serial(m *node.Machine) uint64 {
	m.ReadBoot()
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	if err != nil {
		m.Say(err.Error())
		return 0
	}
	hash := m.Boot.ClusterHash
	if part, err := os.Readlink(m.Root.At(paths.LiveNow)); err == nil {
		hash = filepath.Base(part)
	}
	if !r.Is(m.Boot.RootHash, hash) {
		return 0
	}
	return r.Serial
}
