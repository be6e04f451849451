package pki

import (
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/pki/bundle"
)

// trusts tells whether somebody who trusts the public half verifies a leaf of an authority.
func trusts(t *testing.T, p Public, authority, leaf string, at time.Time) bool {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(p.Files()[PublicDir+"/"+authority+".crt"]))
	_, err := certificate(t, leaf).Verify(x509.VerifyOptions{Roots: pool, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

func handOut(t *testing.T, tree *Tree, c *facts.Cluster, nodes []facts.Node, now time.Time, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := tree.BundleFor(c, node(t, nodes, name), now)
		require.NoError(t, err)
	}
}

func TestARotationTrustsOldAndNewUntilNobodyUsesTheOld(t *testing.T) {
	tree, c, nodes := made(t)
	const id = "mqtt-server/edge-01"
	at := begin.Add(day)
	handOut(t, tree, c, nodes, begin, "edge-01", "worker-01")
	before, oldLeaf := tree.Public(), tree.Leaves[id].Certificate

	require.ErrorContains(t, tree.Switch("mqtt"), "is steady, so there is nothing to switch to")
	require.ErrorContains(t, tree.Finish("mqtt", c, nodes), "is steady, so there is nothing to end")
	require.NoError(t, tree.Introduce("mqtt", c, options(at)))
	require.ErrorContains(t, tree.Introduce("mqtt", c, options(at)), "is being rotated already and is introduced")
	introduced := tree.Public()
	require.Empty(t, update(t, tree, c, nodes, at), "the old one still signs")
	require.True(t, trusts(t, introduced, "mqtt", oldLeaf, at))

	require.NoError(t, tree.Switch("mqtt"))
	changes := update(t, tree, c, nodes, at)
	require.Len(t, changes, 1)
	require.Equal(t, "replaced: the authority mqtt is another one", changed(changes, id))
	newLeaf := tree.Leaves[id].Certificate
	require.Equal(t, "Spore MQTT CA 2", certificate(t, newLeaf).Issuer.CommonName)
	switched := tree.Public()
	for name, p := range map[string]Public{"introduced": introduced, "switched": switched} {
		require.True(t, trusts(t, p, "mqtt", oldLeaf, at), "%s: a broker that has its old bundle", name)
		require.True(t, trusts(t, p, "mqtt", newLeaf, at), "%s: a broker that has its new bundle", name)
	}
	require.False(t, trusts(t, before, "mqtt", newLeaf, at), "an image from before the rotation knows nothing of it")

	require.Equal(t, []string{"edge-01"}, tree.StillUsing("mqtt", nodes), "the worker has no business with mqtt")
	require.EqualError(t, tree.Finish("mqtt", c, nodes), "the last bundle of edge-01 stands on the previous mqtt, so ending now would cut it off; make new ones with `spore pki bundle --node NAME` and bring them to the nodes")
	require.ErrorContains(t, tree.Withdraw("mqtt"), "only one that has not switched can be withdrawn")
	handOut(t, tree, c, nodes, at, "edge-01")
	require.NoError(t, tree.Finish("mqtt", c, nodes))
	require.False(t, trusts(t, tree.Public(), "mqtt", oldLeaf, at))
	require.True(t, trusts(t, tree.Public(), "mqtt", newLeaf, at))
	require.Equal(t, Steady, tree.Authorities["mqtt"].Phase())
	require.Empty(t, update(t, tree, c, nodes, at))
}

func TestARotationIsRefusedItsEndByEveryNodeThatUsesTheOld(t *testing.T) {
	tree, c, nodes := made(t)
	handOut(t, tree, c, nodes, begin, "master-01", "worker-01", "worker-02", "edge-01", "kafka-01")
	for _, authority := range slices.Sorted(maps.Keys(tree.Authorities)) {
		t.Run(authority, func(t *testing.T) {
			tree := copyOf(t, tree)
			require.NoError(t, tree.Introduce(authority, c, options(begin.Add(time.Hour))))
			require.NoError(t, tree.Switch(authority))
			update(t, tree, c, nodes, begin)
			users := tree.StillUsing(authority, nodes)
			require.Equal(t, map[string][]string{
				"agent": {"edge-01", "kafka-01", "master-01", "worker-01", "worker-02"}, "root": {"edge-01", "kafka-01", "master-01", "worker-01", "worker-02"},
				"signing": {"edge-01", "kafka-01", "master-01", "worker-01", "worker-02"}, "etcd": {"master-01"}, "etcd-client": {"master-01"},
				"front-proxy": {"master-01"}, "service-account": {"master-01"}, "kubernetes-server": {"master-01", "worker-01", "worker-02"},
				"kubernetes-client": {"master-01", "worker-01", "worker-02"}, "kubelet-serving": {"master-01", "worker-01", "worker-02"},
				"kafka": {"kafka-01", "master-01"}, "mqtt": {"edge-01", "master-01"},
			}[authority], users)
			for _, last := range users {
				require.Error(t, tree.Finish(authority, c, nodes))
				handOut(t, tree, c, nodes, begin, last)
			}
			require.NoError(t, tree.Finish(authority, c, nodes))
		})
	}
}

func TestARotationOfTheRootKeepsTheAuthoritiesKeys(t *testing.T) {
	tree, c, nodes := made(t)
	at := begin.Add(day)
	handOut(t, tree, c, nodes, begin, "edge-01")
	leaf, oldRoot, oldCA := tree.Leaves["mqtt-server/edge-01"].Certificate, tree.Authorities[RootName].Current.Certificate, tree.Authorities["mqtt"].Current.Certificate
	require.NoError(t, tree.Introduce("root", c, options(at)))
	require.ErrorContains(t, tree.Introduce("mqtt", c, options(at)), "cannot be rotated at the same time")
	require.NoError(t, tree.Switch("root"))
	changes := update(t, tree, c, nodes, at)
	require.Equal(t, "renewed: the root is another one; its key is the same", changed(changes, "mqtt"))
	require.Empty(t, changed(changes, "mqtt-server/edge-01"))
	newRoot, newCA := tree.Authorities[RootName].Current.Certificate, tree.Authorities["mqtt"].Current.Certificate
	require.Equal(t, leaf, tree.Leaves["mqtt-server/edge-01"].Certificate)
	for _, way := range [][2]string{{oldRoot, oldCA}, {newRoot, newCA}} {
		out, err := openssl(t, "sslserver", at.Add(time.Hour), way[0], way[1], leaf)
		require.NoError(t, err, out)
	}
	require.Len(t, certificatesOf(t, tree.Public(), "mqtt"), 2)
	require.Error(t, tree.Finish("root", c, nodes))
	handOut(t, tree, c, nodes, at, "edge-01")
	require.NoError(t, tree.Finish("root", c, nodes))
	require.Equal(t, []string{newCA}, certificatesOf(t, tree.Public(), "mqtt"))
	require.Equal(t, []string{newRoot}, certificatesOf(t, tree.Public(), "root"))
}

func certificatesOf(t *testing.T, p Public, authority string) []string {
	i := slices.IndexFunc(p.Authorities, func(a PublicAuthority) bool { return a.Name == authority })
	require.GreaterOrEqual(t, i, 0)
	return p.Authorities[i].Certificates
}

func TestARotationFromOurRootToTheUsersOwn(t *testing.T) {
	tree, c, nodes := made(t)
	o := options(begin)
	o.Root = ownRoot(t, begin, begin.Add(20*365*day), nil)
	require.NoError(t, tree.Introduce("root", c, o))
	_, err := tree.Update(c, nodes, o)
	require.NoError(t, err, "it waits for its time")
	require.NoError(t, tree.Switch("root"))
	_, err = tree.Update(c, nodes, o)
	require.NoError(t, err)
	out, err := openssl(t, "sslserver", begin.Add(time.Hour), o.Root.Certificate, tree.Authorities["mqtt"].Current.Certificate, tree.Leaves["mqtt-server/edge-01"].Certificate)
	require.NoError(t, err, out)
	require.ErrorContains(t, tree.Introduce("root", c, o), "is being rotated already")
	require.NoError(t, tree.Finish("root", c, nodes))
	require.ErrorContains(t, tree.Introduce("root", c, o), "its key is the present one")
}

func TestARotationOfTheSigningKeyIsOneToo(t *testing.T) {
	tree, c, nodes := made(t)
	before := tree.Public()
	require.NoError(t, tree.Introduce(SigningName, c, options(begin.Add(day))))
	both := tree.Public()
	require.NoError(t, tree.Switch(SigningName))
	data, err := tree.BundleFor(c, node(t, nodes, "edge-01"), begin)
	require.NoError(t, err)
	_, err = open(t, both, c, "edge-01", data)
	require.NoError(t, err)
	_, err = open(t, before, c, "edge-01", data)
	require.ErrorIs(t, err, bundle.ErrSignature)
}

func TestARotationCanBeWithdrawnBeforeTheSwitch(t *testing.T) {
	tree, c, _ := made(t)
	before := copyOf(t, tree)
	require.NoError(t, tree.Introduce("kafka", c, options(begin)))
	require.NoError(t, tree.Withdraw("kafka"))
	after := copyOf(t, tree)
	require.Greater(t, after.Revision, before.Revision, "nodes that were told to trust the next one are told anew")
	after.Revision = before.Revision
	require.Equal(t, before, after)
	require.Error(t, tree.Withdraw("kafka"))
	require.ErrorContains(t, tree.Introduce("kafak", c, options(begin)), `there is no authority "kafak"; there are root, signing, agent`)
}
