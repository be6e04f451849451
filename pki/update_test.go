package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/ceph/cephx"
)

// changed returns what happened to an id.
func changed(changes []Change, id string) string {
	for _, c := range changes {
		if c.ID == id {
			return c.Did + ": " + c.Why
		}
	}
	return ""
}

func copyOf(t *testing.T, tree *Tree) *Tree {
	data, err := json.Marshal(tree)
	require.NoError(t, err)
	out := &Tree{}
	require.NoError(t, json.Unmarshal(data, out))
	require.True(t, out.Whole())
	return out
}

func TestATreeThatIsUpToDateIsLeftAlone(t *testing.T) {
	tree, c, nodes := made(t)
	before := copyOf(t, tree)
	require.Empty(t, update(t, tree, c, nodes, begin.Add(240*day)))
	require.Equal(t, before, copyOf(t, tree))
}

func TestALeafIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	tree, c, nodes := made(t)
	due := begin.Add(LeafLife * 2 / 3)
	require.Empty(t, update(t, tree, c, nodes, due.Add(-time.Second)))
	old := *tree.Leaves["mqtt-server/edge-01"]
	changes := update(t, tree, c, nodes, due)
	require.Len(t, changes, len(tree.Leaves), "all are of the same day")
	require.Equal(t, "renewed: two thirds of its life were over", changed(changes, "mqtt-server/edge-01"))
	fresh := tree.Leaves["mqtt-server/edge-01"]
	require.NotEqual(t, old.Key, fresh.Key, "with a new key")
	require.Equal(t, due.Truncate(time.Second).Add(LeafLife), certificate(t, fresh.Certificate).NotAfter)
}

func TestAClusterThatWasOffForYearsComesBack(t *testing.T) {
	tree, c, nodes := made(t)
	late := begin.Add(3 * 365 * day)
	lines, err := tree.Show(c, nodes, late)
	require.NoError(t, err)
	require.Equal(t, "expired", state(lines, "certificate", "mqtt-server", "edge-01"))
	require.Len(t, update(t, tree, c, nodes, late), len(tree.Leaves))
}

func TestAnAuthorityIsRenewedThirtyDaysBeforeItsEndWithItsKey(t *testing.T) {
	tree, c, nodes := made(t)
	end := begin.Add(AuthorityLife)
	changes := update(t, tree, c, nodes, end.Add(-AuthorityReserve-time.Minute))
	require.Empty(t, changed(changes, "mqtt"))
	leaf := certificate(t, tree.Leaves["mqtt-server/edge-01"].Certificate)
	require.Equal(t, end, leaf.NotAfter, "no certificate outlives the one that signs it")

	key, ca := tree.Authorities["mqtt"].Current.Key, tree.Authorities["mqtt"].Current.Certificate
	now := end.Add(-AuthorityReserve)
	changes = update(t, tree, c, nodes, now)
	require.Equal(t, "renewed: it was within 30 days of its end; its key is the same", changed(changes, RootName))
	require.Equal(t, "renewed: it was within 30 days of its end; its key is the same", changed(changes, "mqtt"))
	require.Equal(t, key, tree.Authorities["mqtt"].Current.Key)
	require.Equal(t, now.Add(AuthorityLife), certificate(t, tree.Authorities["mqtt"].Current.Certificate).NotAfter)
	// Whoever still has the old certificate of the authority verifies with it what the new one signs.
	update(t, tree, c, nodes, now.Add(20*day))
	pool := x509.NewCertPool()
	pool.AddCert(certificate(t, ca))
	_, err := certificate(t, tree.Leaves["mqtt-server/edge-01"].Certificate).Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now.Add(20 * day)})
	require.NoError(t, err)
}

func TestANearEndThatRenewalCannotMoveIsNotRenewedAgainAndAgain(t *testing.T) {
	c, nodes := sixNodes(t)
	own := ownRoot(t, begin, begin.Add(20*day), nil)
	tree := New(c)
	o := options(begin)
	o.Root = own
	_, err := tree.Update(c, nodes, o)
	require.NoError(t, err)
	o = options(begin.Add(15 * day))
	o.Root = own
	changes, err := tree.Update(c, nodes, o)
	require.NoError(t, err)
	require.Empty(t, changes, "the user's root ends first")

	_, err = tree.Update(c, nodes, options(begin.Add(300*day)))
	require.NoError(t, err, "nothing can be done without the user's root, and show says expired")
}

func TestAnAddressThatChangesMakesTheCertificateAgain(t *testing.T) {
	tree, c, nodes := made(t)
	for name, edit := range map[string]struct {
		id string
		do func(*facts.Cluster, []facts.Node)
	}{
		"the node's address":  {"mqtt-server/edge-01", func(_ *facts.Cluster, n []facts.Node) { n[5].IPs = []string{"10.77.0.99"} }},
		"the node's hostname": {"agent/edge-01", func(_ *facts.Cluster, n []facts.Node) { n[5].Hostname, n[5].FQDN = "gate", "gate.plant.example" }},
		"the API's address":   {"kube-apiserver/master-01", func(c *facts.Cluster, _ []facts.Node) { c.Network.ControlPlaneEndpoint = "10.77.0.101" }},
		"the service network": {"kube-apiserver/master-01", func(c *facts.Cluster, _ []facts.Node) { c.Network.ServiceCIDRs = []string{"10.97.0.0/16"} }},
	} {
		t.Run(name, func(t *testing.T) {
			c2, nodes2 := sixNodes(t)
			edit.do(c2, nodes2)
			lines, err := tree.Show(c2, nodes2, begin)
			require.NoError(t, err)
			row, whom := certRow(edit.id), edit.id[len(certRow(edit.id))+1:]
			require.Equal(t, "changed", state(lines, "certificate", row, whom))
			changes := update(t, tree, c2, nodes2, begin)
			require.Equal(t, "replaced: its names or addresses changed", changed(changes, edit.id))
			update(t, tree, c, nodes, begin)
		})
	}
}

func TestANodeThatComesAndGoes(t *testing.T) {
	tree, c, nodes := made(t)
	_, err := tree.BundleFor(c, node(t, nodes, "worker-02"), begin)
	require.NoError(t, err)
	key := tree.Secrets["state-recovery-key/worker-02"].Value
	less := append([]facts.Node{}, nodes[:2]...)
	less = append(less, nodes[3:]...)
	changes := update(t, tree, c, less, begin)
	require.Equal(t, "dropped: it is no longer needed", changed(changes, "agent/worker-02"))
	require.NotContains(t, tree.Issued, "worker-02")
	require.Contains(t, tree.Secrets, "state-recovery-key/worker-02", "its disk may come back")
	changes = update(t, tree, c, nodes, begin)
	require.Equal(t, "made: it is needed", changed(changes, "agent/worker-02"))
	require.Equal(t, key, tree.Secrets["state-recovery-key/worker-02"].Value)
}

func TestEachNodeHasItsOwnKeysOfCeph(t *testing.T) {
	tree, c, nodes := made(t)
	seen := map[Hidden]string{}
	for name, kind := range map[string]string{"ceph-osd-key": cephx.OSD, "ceph-kubernetes-rbd-key": cephx.RBD, "ceph-kubernetes-cephfs-node-key": cephx.CephFS} {
		seed := map[string]string{cephx.OSD: "ceph-osd-seed", cephx.RBD: "ceph-rbd-seed", cephx.CephFS: "ceph-cephfs-seed"}[kind]
		require.Contains(t, tree.Secrets, seed)
		for _, n := range nodes {
			s := tree.Secrets[name+"/"+n.Name]
			if s == nil {
				continue
			}
			require.Empty(t, seen[s.Value])
			seen[s.Value] = n.Name
			key, err := cephx.ForNode(string(tree.Secrets[seed].Value), kind, n.Name)
			require.NoError(t, err)
			require.Equal(t, Hidden(key), s.Value, "a monitor makes the same of the seed")
		}
		require.NotContains(t, tree.Secrets, name, "there is none for all")
	}
	require.Len(t, seen, 8, "two nodes with OSDs, three of Kubernetes with two each")
	for _, n := range nodes {
		share, err := ShareOf(c, &n)
		require.NoError(t, err)
		for _, e := range share.Secrets {
			if strings.HasPrefix(e.Name, "ceph-") && strings.HasSuffix(e.Name, "-seed") {
				require.Contains(t, n.Roles, "ceph-mon", "%s has %s", n.Name, e.Name)
			}
		}
	}

	// Another seed brings other keys, and keys that all nodes shared stay in the folder and in no bundle.
	old := tree.Secrets["ceph-kubernetes-rbd-key/worker-01"].Value
	tree.Secrets["ceph-kubernetes-rbd-key"] = &Secret{Value: "shared"}
	delete(tree.Secrets, "ceph-rbd-seed")
	changes := update(t, tree, c, nodes, begin)
	require.Equal(t, "replaced: ceph-rbd-seed is another one", changed(changes, "ceph-kubernetes-rbd-key/worker-01"))
	require.NotEqual(t, old, tree.Secrets["ceph-kubernetes-rbd-key/worker-01"].Value)
	data, err := tree.BundleFor(c, node(t, nodes, "worker-01"), begin)
	require.NoError(t, err)
	require.NotContains(t, string(data), `"shared"`)
	require.Contains(t, string(data), string(tree.Secrets["ceph-kubernetes-rbd-key/worker-01"].Value))

	// The key by which all nodes mounted shared volumes is the monitors' alone, for a Kubernetes elsewhere, and is kept.
	shared := string(tree.Secrets["ceph-kubernetes-cephfs-key"].Value)
	for _, n := range nodes {
		data, err := tree.BundleFor(c, &n, begin)
		require.NoError(t, err)
		require.Equal(t, slices.Contains(n.Roles, "ceph-mon"), strings.Contains(string(data), shared), n.Name)
	}
}

func TestAnotherClustersConfigurationIsRefused(t *testing.T) {
	tree, c, nodes := made(t)
	other := *c
	other.ID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"
	_, err := tree.Update(&other, nodes, options(begin))
	require.ErrorContains(t, err, "the keys belong to the cluster plant with the id 0b9c4f62-7d53-4a1e-8f7c-4d1f2a3b5c6d")
	_, err = tree.BundleFor(&other, &nodes[0], begin)
	require.ErrorContains(t, err, "the keys belong to the cluster")
	_, err = tree.Show(&other, nodes, begin)
	require.ErrorContains(t, err, "the keys belong to the cluster")
}

func TestAClockBeforeTheRootIsRefused(t *testing.T) {
	tree, c, nodes := made(t)
	_, err := tree.Update(c, nodes, options(begin.Add(-40*day)))
	require.ErrorContains(t, err, "set the clock")
}

func TestValuesThatTheUserBrings(t *testing.T) {
	tree, c, nodes := made(t)
	give := func(name string, value Hidden) ([]Change, error) {
		o := options(begin)
		o.Given = map[string]Hidden{name: value}
		return tree.Update(c, nodes, o)
	}
	changes, err := give("mqtt-password-sensor", "hunter two\n")
	require.NoError(t, err)
	require.Equal(t, "replaced: you brought it", changed(changes, "mqtt-password/mqtt-password-sensor"))
	require.Equal(t, Hidden("hunter two"), tree.Secrets["mqtt-password/mqtt-password-sensor"].Value)
	changes, err = give("mqtt-password-sensor", "hunter two")
	require.NoError(t, err)
	require.Empty(t, changes)

	salted := tree.Secrets["kafka-scram-admin"].Value
	changes, err = give("kafka-password-admin", "another one")
	require.NoError(t, err)
	require.Equal(t, "replaced: kafka-password-admin is another one", changed(changes, "kafka-scram-admin"))
	require.NotEqual(t, salted, tree.Secrets["kafka-scram-admin"].Value)

	for _, bad := range []struct {
		name  string
		value Hidden
		err   string
	}{
		{"mqtt-password-sensor", "\n", "secret mqtt-password/mqtt-password-sensor: it is empty"},
		{"mqtt-password-sensor", "a\x00b", "it has bytes that cannot stand in a line of text"},
		{"mqtt-password-sensor", "a\nb", "it has bytes that cannot stand in a line of text"},
		{"mqtt-password-sensor", Hidden(make([]byte, 1025)), "it has 1025 bytes, more than 1024"},
		{"etcd-encryption-key", "x", `no secret "etcd-encryption-key" can be brought; these can: kafka-password-admin, kafka-password-historian, kafka-password-sensor, mqtt-password-operator, mqtt-password-sensor`},
		{"nonsense", "x", `no secret "nonsense" can be brought`},
	} {
		tree := copyOf(t, tree)
		o := options(begin)
		o.Given = map[string]Hidden{bad.name: bad.value}
		_, err := tree.Update(c, nodes, o)
		require.ErrorContains(t, err, bad.err)
	}
}

// ownRoot makes a root as a user would bring it.
func ownRoot(t *testing.T, from, to time.Time, edit func(*x509.Certificate)) *OwnRoot {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return ownRootOf(t, key, from, to, edit)
}

func ownRootOf(t *testing.T, key crypto.Signer, from, to time.Time, edit func(*x509.Certificate)) *OwnRoot {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Company CA"}, NotBefore: from.Add(-time.Hour), NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, MaxPathLen: -1,
	}
	if edit != nil {
		edit(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	text, err := encodeKey(key)
	require.NoError(t, err)
	return &OwnRoot{Certificate: encodeCertificate(der), Key: text}
}

func TestTheUsersOwnRoot(t *testing.T) {
	c, nodes := sixNodes(t)
	own := ownRoot(t, begin, begin.Add(20*365*day), nil)
	tree := New(c)
	o := options(begin)
	o.Root = own
	_, err := tree.Update(c, nodes, o)
	require.NoError(t, err)
	require.Equal(t, own.Certificate, tree.Authorities[RootName].Current.Certificate)
	data, err := json.Marshal(tree)
	require.NoError(t, err)
	require.NotContains(t, string(data), fmt.Sprintf("%.60s", string(own.Key)[28:]), "its key is not copied")
	out, err := openssl(t, "sslserver", begin.Add(time.Hour), own.Certificate, tree.Authorities["mqtt"].Current.Certificate, tree.Leaves["mqtt-server/edge-01"].Certificate)
	require.NoError(t, err, out)

	// Leaves are renewed without its key; authorities are not.
	o = options(begin.Add(250 * day))
	o.Root = &OwnRoot{Certificate: own.Certificate}
	changes, err := tree.Update(c, nodes, o)
	require.NoError(t, err)
	require.Len(t, changes, len(tree.Leaves))
	_, err = copyOf(t, tree).Update(c, nodes, options(begin.Add(AuthorityLife-10*day)))
	require.ErrorContains(t, err, "the key of your own root is needed to sign it")

	// Another one is a rotation.
	o.Root = ownRoot(t, begin, begin.Add(20*365*day), nil)
	_, err = copyOf(t, tree).Update(c, nodes, o)
	require.ErrorContains(t, err, "use `spore pki rotate-ca root`")

	// A new certificate of the same key is not.
	key, err := parseKey(own.Key)
	require.NoError(t, err)
	o.Root = ownRootOf(t, key, begin, begin.Add(30*365*day), nil)
	changes, err = tree.Update(c, nodes, o)
	require.NoError(t, err)
	require.Equal(t, "renewed: you brought a new certificate of the same key", changed(changes, RootName))
}

func TestRootsThatCannotBeOnesAreRefused(t *testing.T) {
	c, nodes := sixNodes(t)
	end := begin.Add(365 * day)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	otherKey, err := encodeKey(other)
	require.NoError(t, err)
	swapped := ownRoot(t, begin, end, nil)
	swapped.Key = otherKey
	good := ownRoot(t, begin, end, nil)
	for want, root := range map[string]*OwnRoot{
		"is not a CA certificate": ownRoot(t, begin, end, func(c *x509.Certificate) { c.IsCA, c.MaxPathLen = false, 0 }),
		"key usage lacks keyCertSign": ownRoot(t, begin, end, func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageDigitalSignature
		}),
		"pathlen:0":                          ownRoot(t, begin, end, func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true }),
		"is valid from":                      ownRoot(t, begin.Add(-400*day), begin.Add(-day), nil),
		"does not belong to its certificate": swapped,
		"there is no certificate in PEM":     {Certificate: "nothing"},
		"there is no private key in PEM":     {Certificate: good.Certificate, Key: "nothing"},
		"there is more than one certificate": {Certificate: good.Certificate + good.Certificate},
	} {
		o := options(begin)
		o.Root = root
		_, err := New(c).Update(c, nodes, o)
		require.ErrorContains(t, err, want)
	}
}

func TestARandomSourceThatIsNoneFailsAndDoesNotHang(t *testing.T) {
	c, nodes := sixNodes(t)
	_, err := New(c).Update(c, nodes, Options{Now: begin, Random: zeros{}})
	require.ErrorContains(t, err, "the random source gives no random bytes")
	_, err = New(c).Update(c, nodes, Options{Now: begin, Random: empty{}})
	require.ErrorContains(t, err, "make a key")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, fmt.Errorf("no entropy") }

func state(lines []Line, kind, name, whom string) string {
	for _, l := range lines {
		if l.Kind == kind && l.Name == name && l.For == whom {
			return l.State
		}
	}
	return "not there"
}
