package reissue

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services"
	"spore/services/service"
)

const day = 24 * time.Hour

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a cluster whose master runs MQTT too, the operator's tree, and the image.
type world struct {
	tree  *pki.Tree
	c     *facts.Cluster
	nodes []facts.Node
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, report := cluster.Check(os.DirFS("../../cluster/testdata/six-nodes"), cluster.Options{})
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	w := &world{pki.New(&c), &c, nodes}
	master := w.node("master-01")
	master.Roles = append(slices.Clone(master.Roles), "mqtt-broker")
	w.update(t, begin)
	return w
}

func (w *world) node(name string) *facts.Node {
	return &w.nodes[slices.IndexFunc(w.nodes, func(n facts.Node) bool { return n.Name == name })]
}

func random(now time.Time) *rand.ChaCha8 {
	return rand.NewChaCha8([32]byte{byte(now.Unix()), byte(now.Unix() >> 8), byte(now.Unix() >> 16), byte(now.Unix() >> 24)})
}

func (w *world) update(t *testing.T, now time.Time) {
	t.Helper()
	_, err := w.tree.Update(w.c, w.nodes, pki.Options{Now: now, Random: random(now)})
	require.NoError(t, err)
}

// input is what a node has at a time, with the bundle that the operator makes now.
func (w *world) input(t *testing.T, name string, now time.Time) Input {
	t.Helper()
	data, err := w.tree.BundleFor(w.c, w.node(name), begin)
	require.NoError(t, err)
	keys, err := w.tree.Public().SigningKeys()
	require.NoError(t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: w.c.ID, Node: name, Keys: keys})
	require.NoError(t, err)
	return Input{Cluster: w.c, Node: w.node(name), Bundle: b.Secrets, Authorities: w.authorities(), Now: now, Random: random(now.Add(time.Second))}
}

// authorities are those of the image that is built now.
func (w *world) authorities() map[string]string {
	out := map[string]string{}
	for path, data := range w.tree.Public().Files() {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".crt"); ok {
			out[name] = string(data)
		}
	}
	return out
}

// on runs Leaves where nothing keeps it from looking.
func on(t *testing.T, in Input) Result {
	t.Helper()
	r, err := Leaves(in)
	require.NoError(t, err)
	return r
}

func certificate(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	require.NotNil(t, block)
	c, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return c
}

// ids lists what was made.
func ids(changes []pki.Change) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, c.ID)
	}
	return out
}

// leavesOf lists the leaves of a node whose keys come in the bundle.
func leavesOf(t *testing.T, w *world, name string) map[string]pki.Leaf {
	t.Helper()
	s, err := pki.ShareOf(w.c, w.node(name))
	require.NoError(t, err)
	out := map[string]pki.Leaf{}
	for _, l := range s.Leaves {
		if l.Row.Made == service.Operator {
			out[l.ID] = l
		}
	}
	return out
}

func TestAMasterMakesWhatIsDueAndNothingBefore(t *testing.T) {
	w := newWorld(t)
	all := slices.Sorted(maps.Keys(leavesOf(t, w, "master-01")))
	require.Contains(t, all, "mqtt-server/master-01")
	for _, test := range []struct {
		name  string
		after time.Duration
		why   string
	}{
		{"new", 0, ""},
		{"the day before two thirds", 242 * day, ""},
		{"two thirds", 244 * day, "two thirds of its life were over"},
		{"the last day", 364 * day, "two thirds of its life were over"},
		{"ended", 400 * day, "it ended on 2027-03-01"},
		{"long ended", 3000 * day, "it ended on 2027-03-01"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := w.input(t, "master-01", begin.Add(test.after))
			r := on(t, in)
			require.Empty(t, r.Problems)
			require.Equal(t, test.why != "", r.Changed)
			if test.why == "" {
				require.Empty(t, r.Made)
				require.Empty(t, r.Entries)
				return
			}
			require.Equal(t, all, slices.Sorted(slices.Values(ids(r.Made))))
			for _, c := range r.Made {
				require.Equal(t, test.why, c.Why)
				require.Equal(t, "renewed", c.Did)
			}
			require.Len(t, r.Entries, 2*len(all))
		})
	}
}

// What a node makes is what the operator would have made at the same time, whose certificates are held against the table.
func TestWhatANodeMakesIsWhatTheOperatorWouldMake(t *testing.T) {
	w := newWorld(t)
	now := begin.Add(400 * day)
	in := w.input(t, "master-01", now)
	r := on(t, in)
	w.update(t, now)
	operators := w.input(t, "master-01", now).Bundle
	for id, l := range leavesOf(t, w, "master-01") {
		t.Run(id, func(t *testing.T) {
			node, operator := certificate(t, r.Entries[l.Certificate]), certificate(t, operators[l.Certificate])
			require.NotEqual(t, operator.SerialNumber, node.SerialNumber)
			require.NotEqual(t, operator.RawSubjectPublicKeyInfo, node.RawSubjectPublicKeyInfo)
			require.NotEqual(t, certificate(t, in.Bundle[l.Certificate]).RawSubjectPublicKeyInfo, node.RawSubjectPublicKeyInfo, "the key is a new one")
			same := func(pick func(*x509.Certificate) any) { require.Equal(t, pick(operator), pick(node)) }
			same(func(c *x509.Certificate) any { return c.RawSubject })
			same(func(c *x509.Certificate) any { return c.RawIssuer })
			same(func(c *x509.Certificate) any { return c.DNSNames })
			same(func(c *x509.Certificate) any { return c.IPAddresses })
			same(func(c *x509.Certificate) any { return c.KeyUsage })
			same(func(c *x509.Certificate) any { return c.ExtKeyUsage })
			same(func(c *x509.Certificate) any { return c.NotBefore })
			same(func(c *x509.Certificate) any { return c.NotAfter })
			same(func(c *x509.Certificate) any { return c.PublicKeyAlgorithm })
			require.Equal(t, l.CommonName, node.Subject.CommonName)
			require.Equal(t, l.Organization, node.Subject.Organization)
			require.Equal(t, l.DNS, node.DNSNames)
			// The chain is laid as the operator lays it.
			_, operatorChain, _ := strings.Cut(operators[l.Certificate], "-----END CERTIFICATE-----\n")
			_, nodeChain, _ := strings.Cut(r.Entries[l.Certificate], "-----END CERTIFICATE-----\n")
			require.Equal(t, operatorChain, nodeChain)
			verify(t, w, l, now.Add(time.Hour), r.Entries)
		})
	}
}

// verify has openssl verify a leaf for what it is for and refuse it for what it is not, and use its key.
func verify(t *testing.T, w *world, l pki.Leaf, at time.Time, entries map[string]string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	authorities := w.authorities()
	root, ca := file("root", authorities[pki.RootName]), file("ca", authorities[l.Row.Authority])
	leaf, key := file("leaf", entries[l.Certificate]), file("key", entries[l.Key])
	openssl := func(args ...string) (string, error) {
		out, err := exec.Command("openssl", args...).CombinedOutput()
		return string(out), err
	}
	for purpose, usage := range map[string]service.Usage{"sslserver": service.Server, "sslclient": service.Client} {
		out, err := openssl("verify", "-x509_strict", "-no-CApath", "-no-CAstore", "-purpose", purpose, "-attime", strconv.FormatInt(at.Unix(), 10), "-CAfile", root, "-untrusted", ca, leaf)
		require.Equal(t, l.Row.Usage&usage != 0, err == nil, "openssl, %s: %s", purpose, out)
	}
	certified, err := openssl("x509", "-in", leaf, "-noout", "-pubkey")
	require.NoError(t, err, certified)
	own, err := openssl("pkey", "-in", key, "-pubout")
	require.NoError(t, err, own)
	require.Equal(t, certified, own, "the key is that of the certificate")
}

func TestANodeThatHoldsNoKeyOfAnAuthorityMakesNothing(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"worker-01", "edge-01", "kafka-01", "storage-01"} {
		for _, test := range []struct {
			after time.Duration
			works bool
			why   string
		}{{244 * day, true, "two thirds of its life were over"}, {400 * day, false, "it ended on 2027-03-01"}} {
			r := on(t, w.input(t, name, begin.Add(test.after)))
			require.Empty(t, r.Made)
			require.Empty(t, r.Entries)
			require.False(t, r.Changed)
			require.Len(t, r.Problems, len(leavesOf(t, w, name)))
			for _, p := range r.Problems {
				require.ErrorIs(t, p.Err, ErrNotHeld)
				require.Equal(t, test.works, p.Works)
				require.Equal(t, begin.Add(pki.LeafLife), p.Ends)
				require.EqualError(t, p.Err, fmt.Sprintf("certificate %s: %s: this node does not hold the key of its authority; run `spore pki bundle --node %s` and bring the bundle to the node", p.ID, test.why, name))
			}
		}
	}
}

// A worker to which somebody gave the key of an authority still makes nothing: the table says who issues.
func TestAKeyThatTheTableDoesNotGiveIsNotUsed(t *testing.T) {
	w := newWorld(t)
	in := w.input(t, "worker-01", begin.Add(400*day))
	maps.Copy(in.Bundle, w.input(t, "master-01", begin).Bundle)
	r := on(t, in)
	require.Empty(t, r.Made)
	require.NotEmpty(t, r.Problems)
}

func TestAnAuthorityThatEndedKeepsOnlyItsOwnFromBeingMade(t *testing.T) {
	w := newWorld(t)
	in := w.input(t, "master-01", begin.Add(pki.AuthorityLife+10*day))
	old := in.Authorities["mqtt"]
	w.update(t, begin.Add(pki.AuthorityLife-10*day)) // all authorities are renewed, and the leaves
	in.Authorities = w.authorities()
	in.Authorities["mqtt"] = old
	r := on(t, in)
	require.Len(t, r.Problems, 1)
	p := r.Problems[0]
	require.Equal(t, "mqtt-server/master-01", p.ID)
	require.False(t, p.Works)
	require.EqualError(t, p.Err, "certificate mqtt-server/master-01: it ended on 2027-03-01: the authority mqtt itself ended on 2036-03-01; run `spore pki renew`, build the image again and bring it to the nodes")
	require.Len(t, r.Made, len(leavesOf(t, w, "master-01"))-1)
	require.NotContains(t, r.Entries, "mqtt-tls-certificate")
}

func TestNothingOutlivesItsAuthority(t *testing.T) {
	w := newWorld(t)
	end := begin.Add(pki.AuthorityLife)
	in := w.input(t, "master-01", end.Add(-90*day))
	r := on(t, in)
	require.Empty(t, r.Problems)
	require.Equal(t, end, certificate(t, r.Entries["mqtt-tls-certificate"]).NotAfter)
	// Another would end at the same time, so there is no point in one.
	in.Kept, in.Now = r.Entries, end.Add(-20*day)
	r = on(t, in)
	require.Empty(t, r.Made)
	require.False(t, r.Changed)
	require.True(t, r.Problems[0].Works)
	require.ErrorContains(t, r.Problems[0].Err, "ends on 2036-03-01, so a new certificate would expire then too; run `spore pki renew`")
}

func TestNamesThatChangedAreTakenUp(t *testing.T) {
	w := newWorld(t)
	in := w.input(t, "master-01", begin.Add(day))
	n := *in.Node
	n.Hostname, n.FQDN, n.IPs = "head", "head.plant.example", []string{"10.77.0.21"}
	in.Node = &n
	r := on(t, in)
	require.Empty(t, r.Problems)
	require.Equal(t, []string{
		"agent/master-01", "mqtt-server/master-01", "etcd-server/master-01", "etcd-peer/master-01", "kube-apiserver/master-01", "kube-controller-manager-server/master-01",
		"kube-scheduler-server/master-01",
	}, ids(r.Made), "those that have names")
	c := certificate(t, r.Entries["mqtt-tls-certificate"])
	require.Equal(t, []string{"mqtt.plant.example", "head.plant.example", "head", "master-01"}, c.DNSNames)
	require.Equal(t, "10.77.0.21", c.IPAddresses[0].String())
	require.Equal(t, "its names or addresses changed", r.Made[0].Why)
	require.Equal(t, begin.Add(day+pki.LeafLife), c.NotAfter)
}

func TestWhatWasMadeLastsUntilANewBundleIsBetter(t *testing.T) {
	w := newWorld(t)
	now := begin.Add(400 * day)
	in := w.input(t, "master-01", now)
	first := on(t, in)
	in.Kept = first.Entries

	in.Now = now.Add(day)
	again := on(t, in)
	require.False(t, again.Changed)
	require.Empty(t, again.Made)
	require.Equal(t, first.Entries, again.Entries)

	in.Now = now.Add(250 * day)
	due := on(t, in)
	require.True(t, due.Changed)
	require.Equal(t, "two thirds of its life were over", due.Made[0].Why)

	w.update(t, now.Add(2*day))
	newer := w.input(t, "master-01", now.Add(3*day))
	newer.Kept = first.Entries
	r := on(t, newer)
	require.True(t, r.Changed)
	require.Empty(t, r.Entries)
	require.Empty(t, r.Made)

	// A key that was kept for an authority that is trusted no more is worth nothing.
	require.NoError(t, w.tree.Introduce("mqtt", w.c, pki.Options{Now: now, Random: random(now.Add(time.Minute))}))
	require.NoError(t, w.tree.Switch("mqtt"))
	w.update(t, now.Add(3*day))
	rotated := w.input(t, "master-01", now.Add(4*day))
	rotated.Bundle["mqtt-tls-certificate"] = ""
	rotated.Kept = first.Entries
	r = on(t, rotated)
	require.Empty(t, r.Made, "both generations are trusted")
	require.Equal(t, first.Entries["mqtt-tls-certificate"], r.Entries["mqtt-tls-certificate"])
	_, after, _ := strings.Cut(rotated.Authorities["mqtt"], "-----END CERTIFICATE-----\n")
	rotated.Authorities["mqtt"] = strings.TrimSuffix(rotated.Authorities["mqtt"], after) // the rotation has ended
	r = on(t, rotated)
	require.Equal(t, []string{"mqtt-server/master-01"}, ids(r.Made))
	require.Equal(t, "Spore MQTT CA 2", certificate(t, r.Entries["mqtt-tls-certificate"]).Issuer.CommonName)
}

// A clock that stood far ahead once must not leave a node with certificates that are not valid yet.
func TestWhatAWrongClockMadeIsNotUsed(t *testing.T) {
	w := newWorld(t)
	ahead := on(t, w.input(t, "master-01", begin.Add(2000*day))).Entries
	for after, made := range map[time.Duration]bool{day: false, 400 * day: true} {
		in := w.input(t, "master-01", begin.Add(after))
		in.Kept = ahead
		r := on(t, in)
		require.Empty(t, r.Problems)
		require.True(t, r.Changed)
		require.Equal(t, made, len(r.Made) > 0)
		for name, text := range r.Entries {
			require.NotEqual(t, ahead[name], text, name)
		}
	}
	behind := w.input(t, "master-01", begin.Add(-20*day))
	r := on(t, behind)
	require.Empty(t, r.Entries)
	require.ErrorContains(t, r.Problems[0].Err, "begins on 2026-03-01, and the clock says 2026-02-09; set the clock")
}

func TestWhatIsBrokenOrMissingIsMadeOrSaid(t *testing.T) {
	w := newWorld(t)
	now := begin.Add(day)
	other := w.input(t, "edge-01", now).Bundle
	for _, test := range []struct {
		name    string
		change  func(*Input)
		made    string // Did and Why
		problem string
	}{
		{name: "nothing", change: func(*Input) {}},
		{name: "no certificate and no key", change: func(in *Input) { delete(in.Bundle, "mqtt-tls-certificate"); delete(in.Bundle, "mqtt-tls-key") }, made: "made: it is not there"},
		{name: "no key", change: func(in *Input) { delete(in.Bundle, "mqtt-tls-key") }, made: "made: its key is not its own"},
		{name: "another's key", change: func(in *Input) { in.Bundle["mqtt-tls-key"] = other["mqtt-tls-key"] }, made: "made: its key is not its own"},
		{name: "another's certificate", change: func(in *Input) {
			in.Bundle["mqtt-tls-key"], in.Bundle["mqtt-tls-certificate"] = other["mqtt-tls-key"], other["mqtt-tls-certificate"]
		}, made: "renewed: its subject changed"},
		{name: "no PEM", change: func(in *Input) { in.Bundle["mqtt-tls-certificate"] = "hello" }, made: "made: it cannot be read"},
		{name: "a certificate that is none", change: func(in *Input) {
			in.Bundle["mqtt-tls-certificate"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("hello")}))
		}, made: "made: it cannot be read"},
		{name: "a chain without end", change: func(in *Input) {
			in.Bundle["mqtt-tls-certificate"] = strings.Repeat(in.Bundle["mqtt-tls-certificate"], 9)
		}, made: "made: it cannot be read"},
		{name: "an image without the authority", change: func(in *Input) { delete(in.Authorities, "mqtt") }, problem: "the authority mqtt cannot be read: the authority mqtt: there is no certificate in PEM"},
		{name: "an image with another authority", change: func(in *Input) { in.Authorities["mqtt"] = in.Authorities["kafka"] }, problem: "the authority mqtt is another one: the key of the authority mqtt does not match any of its certificates; build the image again, make the bundle again, and bring both to the node"},
		{name: "a key that is none", change: func(in *Input) {
			in.Bundle["mqtt-ca-key"] = "hunter2"
			in.Now = begin.Add(250 * day)
		}, problem: "two thirds of its life were over: the key of the authority mqtt: there is no private key in PEM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := w.input(t, "master-01", now)
			test.change(&in)
			r := on(t, in)
			var made, problem string
			for _, c := range r.Made {
				if c.ID == "mqtt-server/master-01" {
					made = c.Did + ": " + c.Why
				}
			}
			for _, p := range r.Problems {
				require.Equal(t, "mqtt-server/master-01", p.ID)
				problem = p.Err.Error()
			}
			require.Equal(t, test.made, made)
			if test.problem != "" {
				test.problem = "certificate mqtt-server/master-01: " + test.problem
			}
			require.Equal(t, test.problem, problem)
			if made != "" {
				verify(t, w, leavesOf(t, w, "master-01")["mqtt-server/master-01"], in.Now.Add(time.Hour), r.Entries)
			}
		})
	}
}

// While the root is rotated, an authority's key has two certificates; the one by the root that signs is laid behind leaves.
func TestTheChainIsThatOfTheRootThatSigns(t *testing.T) {
	w := newWorld(t)
	at := begin.Add(day)
	require.NoError(t, w.tree.Introduce(pki.RootName, w.c, pki.Options{Now: at, Random: random(at)}))
	require.NoError(t, w.tree.Switch(pki.RootName))
	w.update(t, at)
	r := on(t, w.input(t, "master-01", begin.Add(400*day)))
	require.Empty(t, r.Problems)
	_, chain, _ := strings.Cut(r.Entries["mqtt-tls-certificate"], "-----END CERTIFICATE-----\n")
	require.Equal(t, "Spore root CA 2", certificate(t, chain).Issuer.CommonName)
}

// The node reads its facts from JSON; the tables must give it the same as the operator.
func TestTheTablesGiveTheSameOnTheNode(t *testing.T) {
	w := newWorld(t)
	for i := range w.nodes {
		var c facts.Cluster
		var n facts.Node
		for from, read := range map[any]func(data []byte) error{
			w.c:         func(data []byte) error { return services.ReadCluster(data, &c) },
			&w.nodes[i]: func(data []byte) error { return json.Unmarshal(data, &n) },
		} {
			data, err := json.Marshal(from)
			require.NoError(t, err)
			require.NoError(t, read(data))
		}
		want, err := pki.ShareOf(w.c, &w.nodes[i])
		require.NoError(t, err)
		got, err := pki.ShareOf(&c, &n)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestResultsAreNotFormatted(t *testing.T) {
	r := Result{Entries: map[string]string{"a": "hunter2"}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, r), "hunter2")
	}
}
