package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spore/agent/paths"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// APIProgram is the program whose secrets all share that ask other nodes as this one, and apiLeaf the certificate among them.
const (
	APIProgram = "api"
	apiLeaf    = "agent"
)

// Client asks other nodes as this one. It is for commands that root runs.
func (m *Machine) Client() nodeapi.Client {
	return nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return m.identityAt(func(ref string) string { return m.Root.At(filepath.Join(paths.Secrets, APIProgram, ref)) })
		},
		Addresses: m.AddressesOf,
	}
}

// OwnIdentity is what the API shows: the certificate of now, where it was renewed since the unit was started, else the one that
// the unit was started with.
func (m *Machine) OwnIdentity() (nodeapi.Identity, error) {
	// Both files of one time: the link may be turned to others between the two.
	if dir, err := filepath.EvalSymlinks(m.Root.At(filepath.Join(paths.Live, APIProgram))); err == nil {
		return m.identityAt(func(ref string) string { return filepath.Join(dir, ref) })
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return nodeapi.Identity{}, errors.New("CREDENTIALS_DIRECTORY is not set: this command is for a unit with LoadCredential=")
	}
	return m.identityAt(func(ref string) string { return filepath.Join(dir, "secret_"+ref) })
}

// identityAt reads the certificate of the node's agent, whose entries of the bundle lie where at says.
func (m *Machine) identityAt(at func(ref string) string) (id nodeapi.Identity, err error) {
	for ref, into := range map[string]*[]byte{apiLeaf + "-certificate": &id.Certificate, apiLeaf + "-key": &id.Key} {
		if *into, err = atomicfile.ReadLimited(at(ref), MaxSecret); err != nil {
			return id, fmt.Errorf("secret %s of the node's agent: %w", ref, err)
		}
	}
	id.Authorities, err = m.Part.Public("agent.crt")
	return id, err
}

// AddressesOf lists where another node is asked: its addresses by the configuration, and its name where it has none there.
func (m *Machine) AddressesOf(name string) ([]string, error) {
	n, err := m.Part.Node(name)
	if err != nil {
		return nil, err
	}
	if len(n.IPs) == 0 {
		return []string{n.FQDN}, nil
	}
	return n.IPs, nil
}
