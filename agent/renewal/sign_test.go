package renewal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services/service"
)

const day = 24 * time.Hour

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// plant is a cluster with its keys and the bundles of its nodes.
type plant struct {
	t       testing.TB
	c       *facts.Cluster
	nodes   []facts.Node
	tree    *pki.Tree
	bundles map[string]map[string]string
}

func newPlant(t testing.TB) *plant {
	t.Helper()
	config, report := cluster.Check(os.DirFS("../../cluster/testdata/six-nodes"), cluster.Options{})
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	p := &plant{t, &c, nodes, pki.New(&c), map[string]map[string]string{}}
	_, err := p.tree.Update(&c, nodes, pki.Options{Now: begin, Random: rand.Reader})
	require.NoError(t, err)
	keys, err := p.tree.Public().SigningKeys()
	require.NoError(t, err)
	for i := range nodes {
		data, err := p.tree.BundleFor(&c, &nodes[i], begin)
		require.NoError(t, err)
		b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: nodes[i].Name, Keys: keys})
		require.NoError(t, err)
		p.bundles[nodes[i].Name] = b.Secrets
	}
	return p
}

func (p *plant) node(name string) (*facts.Node, error) {
	i := slices.IndexFunc(p.nodes, func(n facts.Node) bool { return n.Name == name })
	if i < 0 {
		return nil, errors.New("no such node")
	}
	return &p.nodes[i], nil
}

func (p *plant) share(name string) pki.Share {
	n, err := p.node(name)
	require.NoError(p.t, err)
	s, err := pki.ShareOf(p.c, n)
	require.NoError(p.t, err)
	return s
}

func (p *plant) agent(name string) pki.Certificate {
	return pki.Certificate{Certificate: p.bundles[name]["agent-certificate"], Key: pki.Hidden(p.bundles[name]["agent-key"])}
}

func (p *plant) trusted() map[string]string {
	out := map[string]string{}
	for file, text := range p.tree.Public().Trust() {
		out[strings.TrimSuffix(file, filepath.Ext(file))] = text
	}
	return out
}

// signer is master-01's at a time.
func (p *plant) signer(now time.Time) Signer {
	return Signer{
		Cluster: p.c, Node: p.node, Trusted: p.trusted(), Now: now, Random: rand.Reader,
		Key: func(authority string) (pki.Hidden, error) {
			key := p.bundles["master-01"][authority+"-ca-key"]
			if key == "" {
				return "", errors.New("this master has no such key")
			}
			return pki.Hidden(key), nil
		},
	}
}

// leaves are a node's whose keys are made here.
func (p *plant) leaves(name string) (out []pki.Leaf) {
	for _, l := range p.share(name).Leaves {
		if l.Row.Made == service.Operator {
			out = append(out, l)
		}
	}
	return out
}

func (p *plant) asker(name string, now time.Time, post func(context.Context, string, []byte) ([]byte, error)) Asker {
	return Asker{
		Cluster: p.c.ID, Node: name, Agent: p.agent(name), Masters: []string{"master-01"}, Post: post, Trusted: p.trusted(),
		Now: func() time.Time { return now }, Random: rand.Reader,
	}
}

func TestAMasterMakesExactlyTheCallersOwnCertificates(t *testing.T) {
	p := newPlant(t)
	now := begin.Add(250 * day)
	for _, n := range p.nodes {
		if n.Name == "master-01" {
			continue // It makes its own.
		}
		post := func(_ context.Context, _ string, data []byte) ([]byte, error) {
			require.NotContains(t, string(data), "PRIVATE", "no key travels")
			return p.signer(now).Sign(data)
		}
		made, refused, err := p.asker(n.Name, now, post).Ask(t.Context(), p.leaves(n.Name))
		require.NoError(t, err)
		require.Empty(t, refused)
		require.Len(t, made, len(p.leaves(n.Name)))
		for _, l := range p.leaves(n.Name) {
			e := l.Examine(made[l.ID], p.trusted()[l.Row.Authority], now)
			require.Equal(t, pki.Good, e.Worth, "%s: %s", l.ID, e.Why)
			require.Equal(t, now.Add(pki.LeafLife).Unix(), e.Ends.Unix())
			require.NotEqual(t, p.bundles[n.Name][l.Key], string(made[l.ID].Key))
		}
	}
}

func TestWhatAMasterRefuses(t *testing.T) {
	p := newPlant(t)
	key := func(name, row string) map[string]string {
		i := slices.IndexFunc(p.leaves(name), func(l pki.Leaf) bool { return l.Row.Name == row })
		_, request, err := pki.Request(p.leaves(name)[max(i, 0)], rand.Reader)
		require.NoError(t, err)
		return map[string]string{row: request}
	}
	seal := func(r Request, agent pki.Certificate) []byte {
		data, err := Seal(r, agent)
		require.NoError(t, err)
		return data
	}
	own := Request{p.c.ID, "edge-01", key("edge-01", "agent")}
	foreign := newPlant(t)
	resigned := func(change func(*envelope)) []byte {
		var e envelope
		require.NoError(t, json.Unmarshal(seal(own, p.agent("edge-01")), &e))
		change(&e)
		data, err := json.Marshal(e)
		require.NoError(t, err)
		return data
	}
	for name, tt := range map[string]struct {
		after time.Duration
		data  []byte
		want  string
	}{
		"another node's name":            {0, seal(Request{p.c.ID, "worker-01", key("worker-01", "agent")}, p.agent("edge-01")), `not that of the agent of "worker-01"`},
		"another cluster":                {0, seal(Request{"x", "edge-01", own.Wanted}, p.agent("edge-01")), "for another cluster"},
		"keys of another cluster":        {0, seal(own, foreign.agent("edge-01")), "certificate of edge-01: x509"},
		"a certificate of a program":     {0, seal(own, pki.Certificate{Certificate: p.bundles["edge-01"]["mqtt-tls-certificate"], Key: pki.Hidden(p.bundles["edge-01"]["mqtt-tls-key"])}), "not that of the agent"},
		"another's certificate":          {0, resigned(func(e *envelope) { e.Chain = p.agent("worker-01").Certificate }), "not signed by the key of its certificate"},
		"a request that was changed":     {0, resigned(func(e *envelope) { e.Request = bytes.Replace(e.Request, []byte("edge-01"), []byte("edge-02"), 1) }), "not signed by the key of its certificate"},
		"no certificate":                 {0, resigned(func(e *envelope) { e.Chain = "" }), "it has no certificate"},
		"nothing wanted":                 {0, seal(Request{p.c.ID, "edge-01", nil}, p.agent("edge-01")), "asks for none"},
		"two things":                     {0, append(seal(own, p.agent("edge-01")), '{'), "something follows"},
		"no JSON":                        {0, []byte("hello"), "not JSON"},
		"more than there may be":         {0, bytes.Repeat([]byte(" "), MaxRequest+1), "more than"},
		"a certificate of the future":    {-30 * day, seal(own, p.agent("edge-01")), "certificate of edge-01: x509"},
		"a certificate that ended early": {pki.LeafLife + Grace + day, seal(own, p.agent("edge-01")), "ended on 2027-03-01"},
	} {
		_, err := p.signer(begin.Add(tt.after)).Sign(tt.data)
		require.ErrorContains(t, err, tt.want, name)
	}

	// Of one request, what is the node's own is made and the rest is not.
	for row, why := range map[string]string{
		"kube-apiserver": "no such certificate", "etcd-agent": "no such certificate", "kubernetes-admin": "no such certificate",
		"kafka-broker": "no such certificate", "kubelet-client": "no such certificate", "nonsense": "no such certificate",
	} {
		wanted := key("edge-01", "agent")
		wanted[row] = wanted["agent"]
		data, err := p.signer(begin).Sign(seal(Request{p.c.ID, "edge-01", wanted}, p.agent("edge-01")))
		require.NoError(t, err)
		a, err := ReadAnswer(data)
		require.NoError(t, err)
		require.Contains(t, a.Refused[row], why)
		require.NotContains(t, a.Made, row)
		require.Contains(t, a.Made, "agent")
	}

	// A node that left the configuration is nobody's.
	p.nodes = slices.DeleteFunc(p.nodes, func(n facts.Node) bool { return n.Name == "edge-01" })
	_, err := p.signer(begin).Sign(seal(own, p.agent("edge-01")))
	require.ErrorContains(t, err, "has no node edge-01")
}

func TestACertificateThatEndedProvesItsNodeForAYearMore(t *testing.T) {
	p := newPlant(t)
	for after, ok := range map[time.Duration]bool{
		pki.LeafLife - day: true, pki.LeafLife + day: true, pki.LeafLife + Grace - day: true, pki.LeafLife + Grace + time.Second: false,
	} {
		now := begin.Add(after)
		made, _, err := p.asker("edge-01", now, func(_ context.Context, _ string, data []byte) ([]byte, error) { return p.signer(now).Sign(data) }).
			Ask(t.Context(), p.leaves("edge-01"))
		if ok {
			require.NoError(t, err, after)
			require.Len(t, made, 2)
		} else {
			require.ErrorContains(t, err, "spore pki bundle --node edge-01", after)
		}
	}
}

func TestWhatAMasterAnswersIsNotBelieved(t *testing.T) {
	p, foreign := newPlant(t), newPlant(t)
	leaves := p.leaves("edge-01")
	now := begin.Add(250 * day)
	ask := func(post func(context.Context, string, []byte) ([]byte, error)) (map[string]pki.Certificate, map[string]error, error) {
		return p.asker("edge-01", now, post).Ask(t.Context(), leaves)
	}
	made, refused, err := ask(func(_ context.Context, _ string, data []byte) ([]byte, error) {
		s := p.signer(now)
		s.Key = func(a string) (pki.Hidden, error) { return pki.Hidden(foreign.bundles["master-01"][a+"-ca-key"]), nil }
		foreignTrust := foreign.trusted()
		foreignTrust["agent"] = s.Trusted["agent"]
		s.Trusted = foreignTrust
		return s.Sign(data)
	})
	require.NoError(t, err)
	require.Empty(t, made["mqtt-server/edge-01"], "another authority's")
	require.ErrorContains(t, refused["mqtt-server/edge-01"], "of no use")

	_, refused, err = ask(func(context.Context, string, []byte) ([]byte, error) {
		return json.Marshal(Answer{Made: map[string]string{"agent": p.bundles["worker-01"]["agent-certificate"]}})
	})
	require.NoError(t, err)
	require.ErrorContains(t, refused["agent/edge-01"], "its key is not its own")

	_, _, err = ask(func(context.Context, string, []byte) ([]byte, error) { return []byte("{"), nil })
	require.ErrorContains(t, err, "no master has signed: master-01 (its answer: it is not JSON")
	_, _, err = ask(func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("no answer in time") })
	require.ErrorContains(t, err, "master-01 (no answer in time)")
	a := p.asker("edge-01", now, nil)
	a.Masters = nil
	_, _, err = a.Ask(t.Context(), leaves)
	require.ErrorContains(t, err, "no master that could sign")
}

func TestTheNextMasterIsAsked(t *testing.T) {
	p := newPlant(t)
	a := p.asker("edge-01", begin, func(_ context.Context, master string, data []byte) ([]byte, error) {
		if master == "master-02" {
			return nil, fmt.Errorf("no answer")
		}
		return p.signer(begin).Sign(data)
	})
	a.Masters = []string{"master-02", "master-01"}
	made, _, err := a.Ask(t.Context(), p.leaves("edge-01"))
	require.NoError(t, err)
	require.NotEmpty(t, made)
}

// FuzzOpen: no request is read that its certificate's key has not signed.
func FuzzOpen(f *testing.F) {
	p := newPlant(f)
	_, request, err := pki.Request(p.leaves("edge-01")[0], rand.Reader)
	require.NoError(f, err)
	good, err := Seal(Request{p.c.ID, "edge-01", map[string]string{"agent": request}}, p.agent("edge-01"))
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"request":{},"chain":"","signature":""}`))
	s := p.signer(begin)
	f.Fuzz(func(t *testing.T, data []byte) {
		answer, err := s.Sign(data)
		if err != nil {
			return
		}
		r, chain, err := open(data)
		require.NoError(t, err)
		require.Equal(t, r.Node, chain[0].Subject.CommonName)
		a, err := ReadAnswer(answer)
		require.NoError(t, err)
		require.Len(t, r.Wanted, len(a.Made)+len(a.Refused))
	})
}

func pkiOptions() pki.Options { return pki.Options{Now: begin, Random: rand.Reader} }
