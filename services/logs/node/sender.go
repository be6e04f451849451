package node

import (
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/services/kubernetes"
	"spore/services/logs"
	"spore/services/logs/sending"
	"spore/services/rendering"
	"spore/services/service"
)

// authorityFile is the authority of the nodes' API, beside what the sender is told.
const authorityFile = "agent.crt"

// ofKubernetes tells whether the node has pods, which masters have too, and the audit log.
func ofKubernetes(in rendering.Input) (pods, audit bool) {
	k := kubernetes.Of(in.Cluster.Services)
	if k == nil {
		return false, false
	}
	master := slices.Contains(in.Node.Roles, "control-plane")
	return master || slices.Contains(in.Node.Roles, "worker"), master && k.AuditLevel() != kubernetes.AuditNone
}

// toSender renders what spore-logs is told, and a file for each store by its number: journal-upload@.service starts
// where there is one.
func toSender(in rendering.Input) (map[string]rendering.File, error) {
	stores := in.Cluster.Members[logs.Role]
	if logs.Of(in.Cluster.Services) == nil || len(stores) == 0 {
		return nil, errors.New("the cluster has no store of logs; add services/logs.yaml, and give a node the role " + logs.Role)
	}
	if len(stores) > sending.MostStores {
		return nil, fmt.Errorf("the cluster has %d stores of logs; %d are possible", len(stores), sending.MostStores)
	}
	for _, ref := range []string{logs.SenderCertificate, logs.SenderKey} {
		if _, err := in.Secret(ref); err != nil {
			return nil, fmt.Errorf("what the node sends logs with: %w", err)
		}
	}
	authority, err := in.Authority(authorityFile)
	if err != nil {
		return nil, fmt.Errorf("the authority of the nodes: %w", err)
	}
	hosts, err := rendering.NewHostTable(in.Hosts, in.Cluster.Domain)
	if err != nil {
		return nil, err
	}
	c := sending.Config{
		CA:          filepath.Join(in.Dir, authorityFile),
		Certificate: in.SecretPath(logs.SenderCertificate), Key: in.SecretPath(logs.SenderKey),
	}
	c.Pods, c.Audit = ofKubernetes(in)
	out := map[string]rendering.File{authorityFile: {Data: authority, Mode: 0o644}}
	for i, name := range stores {
		full := strings.TrimSuffix(hosts.Canonical(rendering.Absolute(name, in.Cluster.Domain), in.Cluster.Domain), ".")
		c.Stores = append(c.Stores, sending.Store{
			Name: name, Address: net.JoinHostPort(full, strconv.Itoa(service.PortAPI)), ServerName: full,
		})
		// Of which store it knows how far that is, and not of which number: another store begins at the oldest entry.
		out[path.Join(sending.Dir, strconv.Itoa(i+1))] = rendering.File{Data: []byte("STORE=" + name + "\n"), Mode: 0o644}
	}
	out[sending.File], err = rendering.JSON(c, 0o600)
	return out, err
}
