package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"spore/agent/api"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/cluster/facts"
	"spore/pki/bundle"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Rows are what the node answers of renewal.
func Rows(m *node.Machine, c *facts.Cluster, n *facts.Node) []api.Row {
	rows := []api.Row{
		{Method: http.MethodGet, Path: nodeapi.RenewalPath, Who: append(nodeapi.Lookers(), nodeapi.Node),
			Handle: api.Plain(renewal.StateHandler(m.Root.At(paths.Renewal), m.Root.At(paths.Status)))},
		{Method: http.MethodPost, Path: nodeapi.BundlePath, Who: []nodeapi.Role{nodeapi.Admin}, Body: bundle.MaxSize, AtOnce: 1, Handle: takeBundle(m, c, n)},
	}
	if slices.Contains(n.Roles, "control-plane") {
		rows = append(rows, api.Row{Method: http.MethodPost, Path: nodeapi.RenewPath, Who: []nodeapi.Role{nodeapi.Node}, Body: renewal.MaxRequest, AtOnce: 8, Ended: true,
			Handle: api.Plain(renewal.SignHandler(m.Root.At(paths.Signer)))})
	}
	return rows
}

// takeBundle checks a bundle that the operator sends and leaves it for root, which checks it again. It is not answered
// before the bundle lies there; whether it was taken is seen in the node's serial.
func takeBundle(m *node.Machine, c *facts.Cluster, n *facts.Node) func(http.ResponseWriter, *http.Request, nodeapi.Caller) {
	return func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the bundle was cut off or is too large", http.StatusBadRequest)
			return
		}
		keys, err := signingKeys(m, c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: n.Name, Keys: keys})
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		if _, err := atomicfile.Write(m.Root.At(filepath.Join(paths.Inbox, inboxFile)), data, 0o600); err != nil {
			m.Say(err.Error())
			http.Error(w, n.Name+" cannot keep the bundle; see its journal", http.StatusInternalServerError)
			return
		}
		m.Say(fmt.Sprintf("%s has sent bundle %d", caller.Name, b.Serial))
		w.WriteHeader(http.StatusAccepted)
	}
}

// inboxFile is the bundle that the operator sent last.
const inboxFile = "bundle"

// readInbox reads what the API's server, which has no privileges, has left.
func readInbox(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > bundle.MaxSize {
		return nil, errors.New("what was left is not a bundle")
	}
	return io.ReadAll(io.LimitReader(f, bundle.MaxSize+1))
}

// Check says why a bundle is not one that the cluster has signed for a node; it is nil for one that is.
func Check(m *node.Machine, name string, data []byte) error {
	cluster, err := m.Part.Cluster()
	if err != nil {
		return err
	}
	keys, err := signingKeys(m, cluster)
	if err != nil {
		return err
	}
	_, err = bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: cluster.ID, Node: name, Keys: keys})
	return err
}

// signingKeys are those that may have signed the cluster's bundles.
func signingKeys(m *node.Machine, c *facts.Cluster) (out []ed25519.PublicKey, err error) {
	for _, text := range c.SigningKeys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, errors.New("the cluster part has a malformed signing key; build the image again")
		}
		out = append(out, key)
	}
	return out, nil
}
