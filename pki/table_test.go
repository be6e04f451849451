package pki

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/pki/bundle"
	"spore/services"
	"spore/services/dns"
	"spore/services/kafka"
	"spore/services/kubernetes"
	"spore/services/mqtt"
	"spore/services/service"
)

func authorityRow(t *testing.T, name string) service.AuthorityRow {
	i := slices.IndexFunc(Authorities(services.Ours()), func(a service.AuthorityRow) bool { return a.Name == name })
	require.GreaterOrEqual(t, i, 0, "authority %s", name)
	return Authorities(services.Ours())[i]
}

func TestEveryAuthorityIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for i, a := range Authorities(services.Ours()) {
		require.True(t, bundle.ValidName(a.Name), a.Name)
		require.False(t, seen[a.Name], a.Name)
		seen[a.Name] = true
		require.Equal(t, i == 0, a.Name == RootName, "the root is first")
		require.Equal(t, a.Kind == service.CA, a.Title != "", "%s: a CA has a title", a.Name)
		require.Equal(t, len(a.Issuers) > 0, a.Key != "", "%s: whoever issues has an entry for the key", a.Name)
		require.LessOrEqual(t, len(a.Title), 60, "ub-common-name is 64 (RFC 5280, appendix A.1)")
		for _, r := range a.Users {
			role, ok := services.Ours().Lookup(r)
			require.True(t, ok, r)
			require.Equal(t, a.Service, role.Service, "%s: %s is a role of its service", a.Name, r)
		}
	}
}

func TestMastersAloneIssueAndNeverForTheRoot(t *testing.T) {
	for _, a := range Authorities(services.Ours()) {
		switch a.Name {
		case RootName, SigningName:
			require.Empty(t, a.Issuers, "no node ever holds the key of %s", a.Name)
		case kubernetes.ServiceAccountAuthority:
			require.Equal(t, []string{"control-plane"}, a.Issuers)
			require.Equal(t, "service-account-key", a.Key)
		default:
			require.Equal(t, []string{"control-plane"}, a.Issuers, a.Name)
			require.Equal(t, a.Name+"-ca-key", a.Key)
		}
	}
}

func TestEveryLeafIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Leaves(services.Ours()) {
		require.False(t, seen[l.Name], l.Name)
		seen[l.Name] = true
		a := authorityRow(t, l.Authority)
		require.Equal(t, service.CA, a.Kind, l.Name)
		require.NotEqual(t, RootName, l.Authority, "the root signs authorities only")
		require.NotZero(t, l.Usage, l.Name)
		require.Equal(t, l.Usage, l.Usage&a.Usage, "%s: its authority may sign that usage", l.Name)
		require.Equal(t, l.Usage&service.Server != 0, len(l.SANs) > 0, "%s: servers have names, clients have none", l.Name)
		require.NotEmpty(t, l.CommonName)
		require.Equal(t, l.Made == service.Operator, l.Certificate != "", l.Name)
		for _, r := range l.Roles {
			if r == service.EveryNode || r == service.OperatorOnly {
				continue
			}
			role, ok := services.Ours().Lookup(r)
			require.True(t, ok, "%s: %s", l.Name, r)
			require.Equal(t, r, role.Name, "the table uses canonical names")
			require.True(t, a.Name == "agent" || a.Service == role.Service, "%s: the authority is of the role's service", l.Name)
			require.True(t, len(a.Users) == 0 || slices.Contains(a.Users, r), "%s: %s works with %s", l.Name, r, a.Name)
		}
	}
}

func TestEverySecretIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Secrets(services.Ours()) {
		if s.From != "" {
			require.True(t, seen[s.From], "%s: what it derives from stands before it", s.Name)
		}
		require.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
		if s.Form != service.FormGiven {
			require.Contains(t, forms, s.Form, s.Name)
		}
		for _, r := range s.Roles {
			if r == service.EveryNode || r == service.OperatorOnly {
				continue
			}
			role, ok := services.Ours().Lookup(r)
			require.True(t, ok, "%s: %s", s.Name, r)
			if slices.Contains([]string{"ceph-fsid", "ceph-kubernetes-rbd-key", "ceph-kubernetes-cephfs-node-key"}, s.Name) && role.Service == "kubernetes" {
				continue // a client of one service that runs on the nodes of another
			}
			require.Equal(t, s.Service, role.Service, s.Name)
		}
	}
}

// A role whose program waits for secrets would wait for ever when no row gave it them.
func TestEveryRoleGetsTheSecretsThatItsProgramsNeed(t *testing.T) {
	c, nodes := sixNodes(t)
	for _, r := range services.Ours().Roles() {
		if !hasRole(c, r.Name) {
			continue // services.TestEveryEntryOfAProgramIsMadeBySomeRow looks at it.
		}
		n := nodes[0] // whichever: its role is what counts
		n.Roles = []string{r.Name}
		s, err := ShareOf(c, &n)
		require.NoError(t, err)
		gets := map[string]bool{}
		for _, a := range s.Issues {
			gets[a.Key] = true
		}
		for _, l := range s.Leaves {
			if l.Row.Made == service.Operator {
				gets[l.Certificate], gets[l.Key] = true, true
			}
		}
		for _, e := range s.Secrets {
			gets[e.Name] = true
		}
		for _, name := range r.Programs {
			p, _ := services.Ours().LookupProgram(name)
			for _, entry := range p.Secrets {
				require.True(t, gets[entry], "%s: %s is given %s", r.Name, p.Name, entry)
			}
			if p.NeedsSecrets {
				own := slices.ContainsFunc(Leaves(services.Ours()), func(l service.LeafRow) bool { return slices.Contains(l.Roles, r.Name) }) ||
					slices.ContainsFunc(Secrets(services.Ours()), func(s service.SecretRow) bool { return slices.Contains(s.Roles, r.Name) })
				require.True(t, own, r.Name)
			}
		}
	}
}

// A program that waited for an entry that no table gives its nodes would wait for ever.
func TestEveryEntryThatAProgramIsGivenIsInTheShareOfItsRoles(t *testing.T) {
	c, nodes := sixNodes(t)
	for _, r := range services.Ours().Roles() {
		if !hasRole(c, r.Name) {
			continue // services.TestEveryEntryOfAProgramIsMadeBySomeRow looks at it.
		}
		n := nodes[0] // whichever: its role is what counts
		n.Roles = []string{r.Name}
		s, err := ShareOf(c, &n)
		require.NoError(t, err)
		var share []string
		for _, a := range s.Issues {
			share = append(share, a.Key)
		}
		for _, l := range s.Leaves {
			share = append(share, l.Certificate, l.Key)
		}
		for _, e := range s.Secrets {
			share = append(share, e.Name)
		}
		for _, name := range r.Programs {
			p, _ := services.Ours().LookupProgram(name)
			require.Subset(t, share, p.Secrets, "%s of role %s", name, r.Name)
		}
	}
}

// DESIGN: what each role is given, by the names of the bundle entries. The agent's and the recovery key are
// everybody's.
func TestTheShareOfEachRole(t *testing.T) {
	issuing := []string{
		"agent-ca-key", "etcd-ca-key", "etcd-client-ca-key", "front-proxy-ca-key", "kafka-ca-key", "kubelet-serving-ca-key",
		"kubernetes-client-ca-key", "kubernetes-server-ca-key", "mqtt-ca-key", "service-account-key",
	}
	kubernetes := []string{
		"calico-cni-certificate", "calico-cni-key", "calico-node-certificate", "calico-node-key", "kube-proxy-certificate", "kube-proxy-key",
		"kubelet-bootstrap-certificate", "kubelet-bootstrap-key",
	}
	every := []string{"agent-certificate", "agent-key", "state-recovery-key"}
	wants := map[string][]string{
		"control-plane": append([]string{
			"calico-controllers-certificate", "calico-controllers-key", "ceph-fsid", "ceph-kubernetes-cephfs-node-key", "ceph-kubernetes-rbd-key", "cluster-dns-certificate", "cluster-dns-key", "etcd-agent-certificate", "etcd-agent-key", "etcd-apiserver-certificate", "etcd-apiserver-key", "etcd-encryption-key", "etcd-snapshot-key",
			"etcd-peer-certificate", "etcd-peer-key", "etcd-server-certificate", "etcd-server-key", "front-proxy-client-certificate",
			"front-proxy-client-key", "kube-apiserver-certificate", "kube-apiserver-key", "kube-apiserver-kubelet-certificate",
			"kube-apiserver-kubelet-key", "kube-controller-manager-certificate", "kube-controller-manager-key",
			"kube-controller-manager-server-certificate", "kube-controller-manager-server-key", "kube-scheduler-certificate",
			"kube-scheduler-key", "kube-scheduler-server-certificate", "kube-scheduler-server-key",
			"kubernetes-agent-certificate", "kubernetes-agent-key", "rbd-provisioner-certificate", "rbd-provisioner-key",
		}, slices.Concat(kubernetes, issuing)...),
		"worker":           append([]string{"ceph-fsid", "ceph-kubernetes-cephfs-node-key", "ceph-kubernetes-rbd-key"}, kubernetes...),
		"kafka-broker":     {"kafka-broker-certificate", "kafka-broker-key", "kafka-cluster-id", "kafka-password-historian", "kafka-password-sensor", "kafka-scram-admin"},
		"kafka-controller": {"kafka-broker-certificate", "kafka-broker-key", "kafka-cluster-id"},
		"ceph-mon":         {"ceph-admin-key", "ceph-cephfs-seed", "ceph-fsid", "ceph-kubernetes-cephfs-key", "ceph-mds-key", "ceph-mgr-key", "ceph-mon-key", "ceph-osd-seed", "ceph-rbd-seed"},
		"ceph-osd":         {"ceph-fsid", "ceph-osd-encryption-key", "ceph-osd-key"},
		"mqtt-broker":      {"mqtt-password-operator", "mqtt-password-sensor", "mqtt-tls-certificate", "mqtt-tls-key"},
		"dns-server":       {},
	}
	c, nodes := sixNodes(t)
	for _, r := range services.Ours().Roles() {
		require.Equal(t, hasRole(c, r.Name), wants[r.Name] != nil, r.Name)
	}
	for role, want := range wants {
		n := nodes[0]
		n.Roles = []string{role}
		s, err := ShareOf(c, &n)
		require.NoError(t, err)
		got := []string{}
		for _, a := range s.Issues {
			got = append(got, a.Key)
		}
		for _, l := range s.Leaves {
			if l.Row.Made == service.Operator {
				got = append(got, l.Certificate, l.Key)
			}
		}
		for _, e := range s.Secrets {
			got = append(got, e.Name)
		}
		require.ElementsMatch(t, append(want, every...), got, role)
	}
}

func TestOnlyWhatEnabledServicesNeedIsMade(t *testing.T) {
	c, nodes := sixNodes(t)
	edge := []facts.Node{*node(t, nodes, "edge-01")}
	c.Services.Remove("kubernetes", "kafka", "ceph")
	c.Members = map[string][]string{"mqtt-broker": {"edge-01"}, "dns-server": {"edge-01"}}
	tree := New(c)
	update(t, tree, c, edge, begin)
	require.Len(t, tree.Authorities, 4)
	for _, name := range []string{RootName, SigningName, "agent", "mqtt"} {
		require.Contains(t, tree.Authorities, name)
	}
	require.ElementsMatch(t, []string{"agent/edge-01", "mqtt-server/edge-01", "node-admin", "node-operator", "node-reader"}, slices.Collect(maps.Keys(tree.Leaves)))
	require.Len(t, tree.Secrets, 3)

	// A service that is enabled and that no node runs needs nothing either.
	c.Services.Set(&kafka.Settings{})
	require.Empty(t, update(t, tree, c, edge, begin))
}

// Which authorities a master holds follows the services that are on, not those that it runs.
func TestAMasterIssuesForTheServicesThatAreOn(t *testing.T) {
	c, nodes := sixNodes(t)
	c.Services.Remove("kafka", "ceph")
	s, err := ShareOf(c, node(t, nodes, "master-01"))
	require.NoError(t, err)
	var got []string
	for _, a := range s.Issues {
		got = append(got, a.Name)
	}
	require.Equal(t, []string{"agent", "mqtt", "etcd", "etcd-client", "kubernetes-server", "kubernetes-client", "kubelet-serving", "front-proxy", "service-account"}, got)
}

func TestTheBrokersNamesAreWhatItsClientsCallIt(t *testing.T) {
	c, nodes := sixNodes(t)
	n := *node(t, nodes, "edge-01")
	n.Hostname, n.FQDN = "gate", "gate.plant.example"
	dns.Of(c.Services).Records = []dns.Record{
		{Name: "mqtt", CNAME: "gate"}, {Name: "broker", Addresses: []string{"10.77.0.16"}}, {Name: "queue", CNAME: "broker.plant.example."}, {Name: "other", CNAME: "kafka-01"},
	}
	s, err := ShareOf(c, &n)
	require.NoError(t, err)
	i := slices.IndexFunc(s.Leaves, func(l Leaf) bool { return l.Row.Name == "mqtt-server" })
	require.Equal(t, []string{"mqtt.plant.example", "broker.plant.example", "queue.plant.example", "gate.plant.example", "gate", "edge-01"}, s.Leaves[i].DNS)
	require.Equal(t, "10.77.0.16", s.Leaves[i].IPs[0].String())
	require.Len(t, s.Leaves[i].IPs, 1)
}

func TestTheAPIServerIsKnownInTheDomainOfServices(t *testing.T) {
	c, nodes := sixNodes(t)
	kubernetes.Of(c.Services).DNSDomain = "services.example"
	s, err := ShareOf(c, node(t, nodes, "master-01"))
	require.NoError(t, err)
	i := slices.IndexFunc(s.Leaves, func(l Leaf) bool { return l.Row.Name == "kube-apiserver" })
	require.Contains(t, s.Leaves[i].DNS, "kubernetes.default.svc.services.example")
	require.NotContains(t, s.Leaves[i].DNS, "kubernetes.default.svc.cluster.local")
}

func TestABundleEntryThatWouldHoldTwoThingsIsRefused(t *testing.T) {
	c, nodes := sixNodes(t)
	mqtt.Of(c.Services).Users[0].Password.SecretRef = "agent-key"
	_, err := ShareOf(c, node(t, nodes, "edge-01"))
	require.EqualError(t, err, `node edge-01: the bundle entry "agent-key" would hold both the key of agent and the secret mqtt-password/agent-key; choose another name for it in services/`)
}

func TestNoWordOfTheTableIsLeftStanding(t *testing.T) {
	c, nodes := sixNodes(t)
	for whom, s := range shares(t, c, nodes) {
		for _, l := range s.Leaves {
			texts := slices.Concat([]string{l.ID, l.CommonName, l.Certificate, l.Key}, l.DNS)
			require.False(t, slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsAny(s, "{}") }), "%s: %v", whom, texts)
		}
	}
}
