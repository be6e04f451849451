// Package node renders what the programs of the service logs are told.
package node

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/logs"
	"spore/services/logs/store"
	"spore/services/rendering"
	"spore/services/storedisk"
)

// Renderings are how the configuration of each program is rendered.
var Renderings = map[string]rendering.Func{logs.Taker: toTaker, logs.Sender: toSender}

// toTaker renders what spore-logs-store is told.
func toTaker(in rendering.Input) (map[string]rendering.File, error) {
	s := logs.Of(in.Cluster.Services)
	if s == nil {
		return nil, errors.New("the cluster has no logs settings; add services/logs.yaml")
	}
	if _, err := in.Secret(logs.PasswordEntry); err != nil {
		return nil, fmt.Errorf("what VictoriaLogs is asked with: %w", err)
	}
	c := store.Config{
		Cluster: in.Cluster.Name, Node: in.Node.Name, Roles: rolesOf(in.Cluster),
		Data: storedisk.Data(in.Node.Disks, logs.Use, logs.Taker),
		Days: s.KeptDays(), Queue: s.QueueBytes(),
		URL:  "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(logs.Port)),
		User: logs.User, PasswordFile: in.SecretPath(logs.PasswordEntry),
	}
	if logs.Gives(in.Cluster, in.Node.Name) {
		for _, r := range s.Give {
			c.Give = append(c.Give, receiverOf(r, in.SecretPath))
		}
	}
	file, err := rendering.JSON(c, 0o600)
	return map[string]rendering.File{store.File: file}, err
}

// rolesOf are the roles of each node.
func rolesOf(c *facts.Cluster) map[string]string {
	roles := map[string][]string{}
	for _, role := range slices.Sorted(maps.Keys(c.Members)) {
		for _, name := range c.Members[role] {
			roles[name] = append(roles[name], role)
		}
	}
	out := map[string]string{}
	for name, of := range roles {
		out[name] = strings.Join(of, ",")
	}
	return out
}

func receiverOf(r logs.Receiver, path func(string) string) store.Receiver {
	secret := func(ref *spec.SecretRef) string {
		if ref == nil {
			return ""
		}
		return path(ref.SecretRef)
	}
	out := store.Receiver{Name: r.Name, Sources: r.Of(), Least: r.Least()}
	if s := r.Syslog; s != nil {
		out.Syslog = &store.Syslog{Address: s.Address, Transport: s.Way(), CA: s.CA}
	}
	if l := r.Loki; l != nil {
		out.Loki = &store.Loki{
			URL: l.URL, Tenant: l.Tenant, User: l.User, CA: l.CA, PasswordFile: secret(l.Password), TokenFile: secret(l.Token),
		}
	}
	if e := r.Elasticsearch; e != nil {
		out.Elasticsearch = &store.Elasticsearch{
			URL: e.URL, Index: e.Index, User: e.User, CA: e.CA, PasswordFile: secret(e.Password), APIKeyFile: secret(e.APIKey),
		}
	}
	if f := r.File; f != nil {
		out.File = &store.FileReceiver{Size: f.Bytes()}
	}
	return out
}
