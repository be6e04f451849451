package activate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/detect"
	"spore/agent/state"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/dns"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/services/mqtt"
)

func TestPlan(t *testing.T) {
	base := func() Input {
		return Input{
			Cluster: &facts.Cluster{SigningKeys: []string{"k"}, Services: spec.Services{
				&mqtt.Settings{TLS: mqtt.TLS{Key: spec.SecretRef{SecretRef: "tls-key"}}, Users: []mqtt.User{{Name: "a", Password: spec.SecretRef{SecretRef: "pw-a"}}}},
				&dns.Settings{},
			}},
			Node:     &facts.Node{Name: "edge-01", Roles: []string{"dns-server", "mqtt-broker"}},
			Identity: detect.Identity{Result: identity.Result{Node: "edge-01", Phase: 1}},
			Have:     func(_, _ string) bool { return true },
			Unit:     func(string) bool { return true },
		}
	}
	for name, tc := range map[string]struct {
		change  func(*Input)
		start   []string
		targets []string
		held    []Held
	}{
		"with its secrets every role starts": {func(*Input) {}, []string{"dns-server", "mqtt-broker"}, []string{"dns.target", "mqtt.target"}, nil},
		"a role without its secrets is held, and no other": {
			func(i *Input) {
				i.Have = func(program, ref string) bool { return program == "mosquitto" && ref != "pw-a" }
			}, []string{"dns-server"}, []string{"dns.target"},
			[]Held{{"mqtt-broker", "missing secrets pw-a: no bundle for this node came with the machine"}},
		},
		"a node found by DHCP alone is told that it proves nothing": {
			func(i *Input) { i.Have = func(_, _ string) bool { return false }; i.Identity.Phase = 2 }, []string{"dns-server"}, []string{"dns.target"},
			[]Held{{"mqtt-broker", "missing secrets pw-a, tls-key: the node was found by DHCP alone, which proves nothing, and no bundle came with the machine"}},
		},
		"a refused bundle is the reason": {
			func(i *Input) {
				i.Have = func(_, _ string) bool { return false }
				i.BundleProblem = "it is for another node"
			}, []string{"dns-server"}, []string{"dns.target"},
			[]Held{{"mqtt-broker", "missing secrets pw-a, tls-key: it is for another node"}},
		},
		"an image without keys is the reason": {
			func(i *Input) {
				i.Have = func(_, _ string) bool { return false }
				i.Cluster.SigningKeys = nil
			}, []string{"dns-server"}, []string{"dns.target"},
			[]Held{{"mqtt-broker", "missing secrets pw-a, tls-key: this image was built without keys; run `spore pki init`, and build again"}},
		},
		"a bundle that lacks an entry is the reason": {
			func(i *Input) {
				i.Have = func(_, ref string) bool { return ref != "pw-a" }
				i.Serial, i.BundleProblem = 7, "the bundle stays on the boot medium"
			}, []string{"dns-server"}, []string{"dns.target"},
			[]Held{{"mqtt-broker", "missing secrets pw-a: bundle 7 does not hold them; send a newer one with `spore bundle --node edge-01 --make`; the bundle stays on the boot medium"}},
		},
		"a role that the image does not carry is held": {
			func(i *Input) { i.Unit = func(name string) bool { return name == "mqtt.target" } }, []string{"mqtt-broker"}, []string{"mqtt.target"},
			[]Held{{"dns-server", "this image does not carry it; build one in which its service is enabled"}},
		},
		"state that was refused holds every role": {
			func(i *Input) { i.State = state.Info{Kind: state.Tmpfs, Refused: true, Warning: "foreign"} }, nil, nil,
			[]Held{{"dns-server", "its state is out of reach: foreign"}, {"mqtt-broker", "its state is out of reach: foreign"}},
		},
		"a tmpfs for want of a disk holds none": {
			func(i *Input) { i.State = state.Info{Kind: state.Tmpfs, Warning: "no disk"} }, []string{"dns-server", "mqtt-broker"}, []string{"dns.target", "mqtt.target"}, nil,
		},
		"a node without roles starts nothing": {func(i *Input) { i.Node.Roles = nil }, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := base()
			tc.change(&in)
			start, targets, held := Plan(in)
			require.Equal(t, tc.start, start)
			require.Equal(t, tc.targets, targets)
			require.Equal(t, tc.held, held)
		})
	}
}

func TestManyMissingSecretsAreCounted(t *testing.T) {
	m := &mqtt.Settings{}
	for _, r := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		m.Users = append(m.Users, mqtt.User{Password: spec.SecretRef{SecretRef: r}})
	}
	_, _, held := Plan(Input{
		Cluster: &facts.Cluster{Services: spec.Services{m}}, Node: &facts.Node{Roles: []string{"mqtt-broker"}},
		Have: func(_, _ string) bool { return false }, Unit: func(string) bool { return true },
	})
	require.Contains(t, held[0].Reason, "a, b, c, d, e and 2 more")
}

type starter struct{ asked []string }

func (s *starter) Start(_ context.Context, unit string) error {
	s.asked = append(s.asked, unit)
	if unit == "bad.target" {
		return errors.New("no")
	}
	return nil
}

func TestATargetThatFailsDoesNotKeepBackTheOthers(t *testing.T) {
	s := &starter{}
	require.EqualError(t, Start(context.Background(), s, []string{"a.target", "bad.target", "b.target"}), "no")
	require.Equal(t, []string{"a.target", "bad.target", "b.target"}, s.asked)
}

func TestHaveInAndUnitIn(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	require.True(t, HaveIn(filepath.Dir(dir))(filepath.Base(dir), "x"))
	require.False(t, HaveIn(filepath.Dir(dir))(filepath.Base(dir), "y"))
	require.True(t, UnitIn("/nonexistent", dir)("x"))
	require.False(t, UnitIn(dir)("y"))
}

func TestEachProgramGetsItsRowsSecretsAndThoseThatTheSettingsName(t *testing.T) {
	c := &facts.Cluster{Services: spec.Services{
		&mqtt.Settings{TLS: mqtt.TLS{Key: spec.SecretRef{SecretRef: "tls-key"}}}, &dns.Settings{},
	}}
	api := []string{"agent-certificate", "agent-key"} // of every node
	require.Equal(t, map[string][]string{"api": api, "mosquitto": {"tls-key"}}, Secrets(c, &facts.Node{Roles: []string{"dns-server", "mqtt-broker"}}))
	require.Equal(t, map[string][]string{"api": api}, Secrets(c, &facts.Node{Roles: []string{"dns-server"}}))
	worker := Secrets(c, &facts.Node{Roles: []string{"worker"}})
	require.Equal(t, []string{"kubelet-bootstrap-certificate", "kubelet-bootstrap-key"}, worker["kubelet"])
	require.NotContains(t, worker, "kube-apiserver")

	c.Services, c.Members = append(c.Services, &logs.Settings{}), map[string][]string{logs.Role: {"observer-01"}}
	require.Equal(t, map[string][]string{"api": api, "spore-logs": {"logs-sender-certificate", "logs-sender-key"}},
		Secrets(c, &facts.Node{Roles: []string{"dns-server"}}), "a service that has programs on every node")
}

// TestProgramsOfOneServiceGetWhatEachUses has a receiver of each way: Alertmanager tells by HTTP and mail, and the
// bridge tells brokers and sends the heartbeat.
func TestProgramsOfOneServiceGetWhatEachUses(t *testing.T) {
	ref := func(name string) *spec.SecretRef { return &spec.SecretRef{SecretRef: name} }
	broker := &metrics.MQTT{Password: *ref("broker")}
	c := &facts.Cluster{Services: spec.Services{&metrics.Settings{Alerts: &metrics.Alerts{
		Receivers: []metrics.Receiver{
			{Webhook: &metrics.Endpoint{SecretURL: ref("chat-url")}},
			{Webhook: &metrics.Endpoint{Token: ref("token")}},
			{Email: &metrics.Email{Password: ref("mail")}}, {Email: &metrics.Email{}},
			{MQTT: broker}, {Syslog: &metrics.Syslog{}},
		},
		Heartbeat: &metrics.Heartbeat{HTTP: &metrics.Endpoint{SecretURL: ref("watch-url"), Token: ref("token")}, MQTT: broker},
	}}}}
	got := Secrets(c, &facts.Node{Roles: []string{metrics.AlertsRole}})
	require.Equal(t, map[string][]string{
		"api":             {"agent-certificate", "agent-key"},
		metrics.Evaluator: {metrics.PasswordEntry, metrics.AlertsPassword},
		metrics.Manager:   {metrics.AlertsPassword, metrics.PeersCertificate, metrics.PeersKey, "chat-url", "token", "mail"},
		metrics.Bridge:    {metrics.AlertsPassword, "watch-url", "token", "broker"},
	}, got)
	// Nothing that the settings name is given to nobody.
	service, _ := services.Of(c).Find(metrics.Name)
	for _, entry := range service.UserSecrets(c.Services) {
		require.True(t, slices.Contains(got[metrics.Manager], entry) || slices.Contains(got[metrics.Bridge], entry), entry)
	}
}

func TestWhatEveryNodeRunsWaitsForItsSecretsAlone(t *testing.T) {
	have := map[string]bool{}
	in := Input{
		Cluster: &facts.Cluster{}, Node: &facts.Node{Name: "edge-01"}, Unit: func(string) bool { return true },
		Have: func(program, ref string) bool { return have[program+"/"+ref] },
	}
	require.Empty(t, in.Units())
	have["api/agent-certificate"] = true
	require.Empty(t, in.Units())
	have["api/agent-key"] = true
	require.Equal(t, []string{"spore-api.service"}, in.Units(), "whatever the roles are, and whether they are held")
	in.Cluster.Services = spec.Services{&logs.Settings{}}
	have["spore-logs/logs-sender-certificate"], have["spore-logs/logs-sender-key"] = true, true
	require.Equal(t, []string{"spore-api.service"}, in.Units(), "no node has a store")
	in.Cluster.Members = map[string][]string{logs.Role: {"observer-01"}}
	require.Equal(t, []string{"spore-api.service", "spore-logs.service"}, in.Units(), "which starts journal-upload@.service")
	have["spore-logs/logs-sender-key"] = false
	require.Equal(t, []string{"spore-api.service"}, in.Units())
	in.Unit = func(string) bool { return false }
	require.Empty(t, in.Units(), "an image of before has no such unit")
}

// The folder has the roles gateway and valkey, and others that wait for each other.
func TestARoleComesBehindThoseThatItsUnitsStartAfter(t *testing.T) {
	c, report := cluster.LoadDir("../../examples/own-valkey")
	require.False(t, report.Failed(), report.String())
	shared, _ := cluster.Facts(c)
	plan := func(after map[string][]string, roles ...string) (start, targets []string) {
		start, targets, held := Plan(Input{
			Cluster: &shared, Node: &facts.Node{Name: "edge-01", Roles: roles},
			Have: func(_, _ string) bool { return true }, Unit: func(string) bool { return true },
			After: func(unit string) []string { return after[unit] },
		})
		require.Empty(t, held)
		return start, targets
	}
	const store, gateway = "valkey-server.service", "gateway.service"
	for name, tc := range map[string]struct {
		after map[string][]string
		roles []string
		want  []string
	}{
		"after a unit of another role": {map[string][]string{gateway: {"network.target", store}}, []string{"gateway", "valkey"}, []string{"valkey", "gateway"}},
		"after the target of one":      {map[string][]string{gateway: {"valkey.target"}}, []string{"gateway", "valkey"}, []string{"valkey", "gateway"}},
		"as it is already":             {map[string][]string{gateway: {store}}, []string{"valkey", "gateway"}, []string{"valkey", "gateway"}},
		"after none":                   {nil, []string{"gateway", "valkey"}, []string{"gateway", "valkey"}},
		"on a node without the other":  {map[string][]string{gateway: {store}}, []string{"gateway"}, []string{"gateway"}},
		"each after the other":         {map[string][]string{gateway: {store}, store: {gateway}}, []string{"gateway", "valkey"}, []string{"gateway", "valkey"}},
		"after itself":                 {map[string][]string{gateway: {gateway, "gateway.target"}}, []string{"gateway", "valkey"}, []string{"gateway", "valkey"}},
	} {
		t.Run(name, func(t *testing.T) {
			start, targets := plan(tc.after, tc.roles...)
			require.Equal(t, tc.want, start)
			for i, role := range start {
				require.Equal(t, role+".target", targets[i])
			}
		})
	}
}

func TestAfterIsReadOfAUnitAndOfWhatIsLaidOverIt(t *testing.T) {
	local, usr := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(usr, "a.service"):                     "[Unit]\nAfter=hidden.service\n",
		filepath.Join(local, "a.service"):                   "[Unit]\nAfter=b.service \\\n  c.service\nAfter=d.service\n[Service]\nAfter=no.service\n",
		filepath.Join(usr, "a.service.d", "10-x.conf"):      "[Unit]\nAfter=e.service\n",
		filepath.Join(local, "a.service.d", "90-role.conf"): "[Unit]\nAfter=f.target\n",
		filepath.Join(usr, "only.service"):                  "[Unit]\nAfter=g.service\n",
		filepath.Join(usr, "bad.service"):                   "[Unit\nAfter=h.service\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	after := AfterIn(local, usr)
	require.ElementsMatch(t, []string{"b.service", "c.service", "d.service", "e.service", "f.target"}, after("a.service"))
	require.Equal(t, []string{"g.service"}, after("only.service"))
	require.Empty(t, after("bad.service"))
	require.Empty(t, after("none.service"))
}
