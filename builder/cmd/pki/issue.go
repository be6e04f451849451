package pki

import (
	"crypto/rand"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/wire/nodeapi"
)

// Folder says where an operator's folder is, and how it is opened, as the flags of `spore pki` do.
type Folder struct {
	// Configs is the configuration folder, and Dir the operator's; the one beside Configs where Dir is empty.
	Configs, Dir             string
	PassphraseFile, Identity string
}

// Issued is new bundles of some nodes.
type Issued struct {
	// Bundles has the files by node, as `spore pki bundle` writes them: whoever has one has the node's secrets.
	Bundles map[string][]byte
	// Identity is that of an administrator for the moment, so that the folder is opened once.
	Identity nodeapi.Identity
}

// Issue makes new bundles for nodes, or for all where none is named, as `spore pki bundle` does, for somebody who sends
// them; person stands in the certificate.
func Issue(cmd *cobra.Command, f Folder, nodes []string, person string) (out Issued, err error) {
	c := common{
		world: outside{now: time.Now, random: rand.Reader, ask: ask.Terminal},
		dir:   f.Dir, passphraseFile: f.PassphraseFile, identity: f.Identity,
	}
	c.args([]string{f.Configs})
	s, err := c.open(cmd)
	if err != nil {
		return out, err
	}
	defer s.vault.Close()
	if out.Identity, err = s.administers(person); err != nil {
		return out, err
	}
	wanted := s.nodes
	if len(nodes) > 0 {
		wanted = nil
	}
	for _, name := range nodes {
		n, err := s.node(name)
		if err != nil {
			return out, err
		}
		wanted = append(wanted, *n)
	}
	data, err := s.make(cmd, wanted)
	if err != nil {
		return out, err
	}
	out.Bundles = map[string][]byte{}
	for i, n := range wanted {
		out.Bundles[n.Name] = data[i]
	}
	return out, nil
}
