package answers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/pki"
	"spore/services/kubernetes"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/wire/nodeapi"
)

// write has the table of docs/node-api.md made again: go test ./agent/answers -run WhoMayAsk -write
var write = flag.Bool("write", false, "write the table of rights into docs/node-api.md")

// The table stands between these lines of the page.
const (
	page       = "../../docs/node-api.md"
	tableBegin = "<!-- rights: the table of go test ./agent/answers -run WhoMayAsk -write -->\n"
	tableEnd   = "<!-- end of rights -->\n"
)

// TestWhoMayAskWhat asks everything that a node answers with every kind of certificate, over TLS, and holds what comes
// of it to the table of docs/node-api.md.
func TestWhoMayAskWhat(t *testing.T) {
	machines, c, tree := nodetest.BrokersOf(t, func(c *cluster.Config) {
		c.Cluster.Services = append(c.Cluster.Services, "kubernetes", "logs", "metrics")
		c.Cluster.Network = spec.Network{
			NodeSubnets: []string{"127.0.0.0/8"},
			PodCIDRs:    []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"},
		}
		c.Services = append(c.Services, &kubernetes.Settings{}, &logs.Settings{}, &metrics.Settings{})
		c.Cluster.Nodes[0].Roles = append(c.Cluster.Nodes[0].Roles, "control-plane")
		c.Cluster.Nodes[0].Roles = append(c.Cluster.Nodes[0].Roles, logs.Role)
		c.Cluster.Nodes[1].Roles = append(c.Cluster.Nodes[1].Roles, metrics.Role)
		c.Cluster.Nodes[2].Roles = append(c.Cluster.Nodes[2].Roles, "control-plane")
	}, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	m := machines["kafka-1"]
	m.Say = func(string) {}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer nodetest.Serve(t, m, func(ctx context.Context, m *node.Machine) error { return ServeOn(ctx, m, l) })()

	ofNode := func(name string) func() (nodeapi.Identity, error) {
		client := machines[name].Client()
		return client.Identity
	}
	ofPerson := func(row string) func() (nodeapi.Identity, error) {
		made, err := tree.Access(c, row, "anna", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
		require.NoError(t, err)
		id := nodeapi.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: made.Authority}
		return func() (nodeapi.Identity, error) { return id, nil }
	}
	// What programs of a node have, as it was given it: a store of metrics, and the sender of logs.
	ofProgram := func(program, certificate, key string) func() (nodeapi.Identity, error) {
		return func() (id nodeapi.Identity, err error) {
			id, err = ofNode("kafka-2")()
			require.NoError(t, err)
			given := func(entry string) []byte {
				data, err := os.ReadFile(machines["kafka-2"].Root.At(filepath.Join(paths.Secrets, program, entry)))
				require.NoError(t, err)
				return data
			}
			id.Certificate, id.Key = given(certificate), given(key)
			return id, nil
		}
	}
	callers := map[string]func() (nodeapi.Identity, error){
		"node": ofNode("kafka-2"), "master": ofNode("kafka-3"),
		"scraper": ofProgram(metrics.Program, metrics.ScraperCertificate, metrics.ScraperKey),
		"sender":  ofProgram(logs.Sender, logs.SenderCertificate, logs.SenderKey),
		"reader":  ofPerson(pki.NodeReader), "operator": ofPerson(pki.NodeOperator), "admin": ofPerson(pki.NodeAdmin),
	}
	may := func(who string, r api.Row) bool {
		here := func(string) ([]string, error) { return []string{l.Addr().String()}, nil }
		client := nodeapi.Client{Identity: callers[who], Addresses: here}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := client.Read(ctx, "kafka-1", question(r), 1<<20)
		var no nodeapi.Refusal
		require.True(t, err == nil || errors.As(err, &no), "%s %s by %s: %v", r.Method, r.Path, who, err)
		return no.Status != http.StatusForbidden
	}

	_, n, err := m.Self()
	require.NoError(t, err)
	all := rows(m, c, n, newKeeper(m, c, n))
	slices.SortFunc(all, func(a, b api.Row) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	var table strings.Builder
	table.WriteString("| call | node | scraper | sender | reader | operator | admin |\n|---|---|---|---|---|---|---|\n")
	nobody := strangers(t, callers["admin"])
	for _, r := range all {
		nobody(l.Addr().String(), r)
		cell := map[string]string{}
		for who := range callers {
			cell[who] = "–"
			if may(who, r) {
				cell[who] = "yes"
			}
		}
		if cell["node"] == "–" && cell["master"] == "yes" {
			cell["node"] = "masters"
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		fmt.Fprintf(&table, "| `%s %s` | %s | %s | %s | %s | %s | %s |\n",
			r.Method, path, cell["node"], cell["scraper"], cell["sender"], cell["reader"], cell["operator"], cell["admin"])
		require.Equal(t, r.Path == nodeapi.MetricsPath, cell["scraper"] == "yes", "a scraper asks for metrics alone: %s", r.Path)
		require.Equal(t, r.Path == nodeapi.EntriesPath, cell["sender"] == "yes", "a sender brings logs alone: %s", r.Path)
		if r.Path == nodeapi.EntriesPath {
			require.NotContains(t, cell["node"]+cell["scraper"]+cell["admin"], "yes", "nobody else does")
		}
		if cell["reader"] == "yes" {
			require.Equal(t, "yes", cell["operator"], "an operator may what a reader may: %s", r.Path)
		}
		if cell["operator"] == "yes" {
			require.Equal(t, "yes", cell["admin"], "an admin may what an operator may: %s", r.Path)
		}
	}

	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), tableBegin)
	require.True(t, found, "%s has a place for the table", page)
	have, after, found := strings.Cut(rest, tableEnd)
	require.True(t, found, "%s has a place for the table", page)
	if *write {
		require.NoError(t, os.WriteFile(page, []byte(before+tableBegin+table.String()+tableEnd+after), 0o644))
		return
	}
	require.Equal(t, have, table.String(), "the table of %s; where it is meant, write it with -write", page)
}

// question is a request to a row that changes nothing: nobody listens where a verb would be carried out, and a body is
// empty.
func question(r api.Row) nodeapi.Request {
	sum := strings.Repeat("0", 64)
	path := strings.NewReplacer("{service}", "kafka", "{name}", "none", "{sum}", sum).Replace(r.Path)
	q := nodeapi.Request{Method: r.Method, Path: path}
	if strings.HasPrefix(path, nodeapi.VerbsPath) {
		q.Body = strings.NewReader("{}")
	}
	return q
}

// strangers asks a row without a certificate, and with that of an admin of another cluster.
func strangers(t *testing.T, admin func() (nodeapi.Identity, error)) func(at string, r api.Row) {
	id, err := admin()
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(id.Authorities))
	_, c, tree := nodetest.BrokersWithKeys(t, "127.0.0.1")
	made, err := tree.Access(c, pki.NodeAdmin, "mallory", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	other, err := tls.X509KeyPair([]byte(made.Certificate), []byte(made.Key))
	require.NoError(t, err)
	return func(at string, r api.Row) {
		for name, shown := range map[string][]tls.Certificate{"none": nil, "one of another cluster": {other}} {
			config := &tls.Config{RootCAs: trusted, ServerName: "kafka-1", Certificates: shown}
			client := http.Client{
				Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config},
			}
			q := question(r)
			request, err := http.NewRequestWithContext(t.Context(), q.Method, "https://"+at+q.Path, q.Body)
			require.NoError(t, err)
			res, err := client.Do(request)
			if err == nil {
				_ = res.Body.Close()
			}
			require.Error(t, err, "%s %s with %s", r.Method, r.Path, name)
		}
	}
}

// What the rights are for: whoever looks changes nothing, and what does not come back takes an admin.
func TestTheTableOfVerbsKeepsToTheRights(t *testing.T) {
	for _, v := range nodeapi.Verbs() {
		if v.Name != nodeapi.OSDSafe { // What nodes must know of Ceph before they leave it; it tells nothing else.
			require.NotContains(t, v.Who, nodeapi.Node, "%s is for people", v.Name)
		}
		require.Contains(t, v.Who, nodeapi.Admin, v.Name)
		if v.Kind == nodeapi.Acts {
			require.NotContains(t, v.Who, nodeapi.Reader, "%s changes something", v.Name)
		}
		if v.Destroys {
			require.Equal(t, nodeapi.Owners(), v.Who, "%s destroys something", v.Name)
		}
	}
}
