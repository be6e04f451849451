package services

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/mqtt"
	"spore/services/service"
)

// plain is a role of a configuration, as simple as one can be.
type plain struct {
	Name string `json:"name"`
	Port int    `json:"port"`
	// change makes another row of it.
	change func(*service.Service)
}

func (d *plain) Service() service.Service {
	s := service.Service{
		Name:     d.Name,
		Roles:    []service.Role{{Name: d.Name, Target: d.Name + ".target", Programs: []string{d.Name}}},
		Settings: func() spec.Settings { return &values{name: d.Name} },
		Programs: []service.Program{{
			Name: d.Name, Unit: d.Name + ".service", User: "_" + d.Name,
			Ports: []service.Port{service.TCP(d.Port, "clients").Set(d.Name + ".port")},
		}},
		Port: func(s spec.Services, _ string) int { return s.Get(d.Name).(*values).Port },
	}
	if d.change != nil {
		d.change(&s)
	}
	return s
}

// values are settings of any such role.
type values struct {
	name string
	Port int `json:"port"`
}

func (v *values) Service() string { return v.name }

func readPlain(text []byte) (Definition, error) {
	d := new(plain)
	return d, json.Unmarshal(text, d)
}

// plant is a cluster with two roles of its own, and a node that has one of them.
func plant(t *testing.T) (*facts.Cluster, *facts.Node) {
	t.Helper()
	l, err := With([]Definition{&plain{Name: "valkey", Port: 6379}, &plain{Name: "gateway", Port: 4840}})
	require.NoError(t, err)
	return &facts.Cluster{
		Name: "plant", Roles: l.Facts(), Members: map[string][]string{"valkey": {"a"}, "gateway": {"a"}},
		Services: spec.Services{&mqtt.Settings{}, &values{"gateway", 4841}, &values{"valkey", 6380}},
	}, &facts.Node{Name: "a", Roles: []string{"gateway", "valkey"}}
}

func TestOwnRowsStandBehindOursByTheirNames(t *testing.T) {
	c, _ := plant(t)
	before := Ours().Names()
	l := Of(c)
	require.Equal(t, append(Ours().Names(), "gateway", "valkey"), l.Names())
	require.Equal(t, []string{"gateway", "valkey"}, l.OwnNames())
	require.Equal(t, before, Ours().Names(), "ours stay what they are")
	s, ok := l.Find("valkey")
	require.True(t, ok)
	require.Equal(t, "valkey", s.Roles[0].Service)
	r, ok := l.Lookup("valkey")
	require.True(t, ok)
	require.Equal(t, service.Role{Name: "valkey", Target: "valkey.target", Service: "valkey", Programs: []string{"valkey"}}, r)
	require.Equal(t, "valkey.service", l.ProgramsOf(r, nil)[0].Unit)
	master, ok := l.Lookup("master")
	require.True(t, ok)
	require.Equal(t, "control-plane", master.Name)
	programs := l.Programs()
	require.Equal(t, []string{"gateway", "valkey", "api"}, []string{programs[len(programs)-3].Name, programs[len(programs)-2].Name, programs[len(programs)-1].Name})
	_, ok = Ours().Lookup("valkey")
	require.False(t, ok)
	_, ok = l.LookupProgram("redis")
	require.False(t, ok)
}

func TestAClusterWithoutRolesOfItsOwnHasOurList(t *testing.T) {
	require.Same(t, Ours(), Of(&facts.Cluster{}))
	require.Same(t, Ours(), Of(nil), "a machine without a cluster part")
	l, err := With(nil)
	require.NoError(t, err)
	require.Same(t, Ours(), l)
	require.Nil(t, l.Facts())
	text, err := json.Marshal(facts.Cluster{Roles: l.Facts()})
	require.NoError(t, err)
	require.NotContains(t, string(text), `"roles"`)
}

func TestAListWithoutSomeOfItsOwn(t *testing.T) {
	c, _ := plant(t)
	l := Of(c)
	require.Same(t, l, l.Only(func(string) bool { return true }))
	require.Same(t, Ours(), l.Only(func(string) bool { return false }))
	require.Same(t, Ours(), Ours().Only(func(string) bool { return false }))
	some := l.Only(func(name string) bool { return name == "valkey" })
	require.Equal(t, append(Ours().Names(), "valkey"), some.Names())
	require.Equal(t, []string{"valkey"}, some.OwnNames())
	_, ok := some.Lookup("gateway")
	require.False(t, ok)
	require.Equal(t, []string{"gateway", "valkey"}, l.OwnNames(), "the whole stays what it is")
}

// Nodes are looked up by the thousand.
func TestALookUpMakesNothing(t *testing.T) {
	own, _ := plant(t)
	for name, c := range map[string]*facts.Cluster{"ours": {}, "own": own} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			l := Of(c)
			l.Find("ceph")
			l.Lookup("master")
			l.LookupProgram("kubelet")
		}), name)
	}
}

func TestANodeRunsItsOwnRoles(t *testing.T) {
	c, n := plant(t)
	require.True(t, Enabled(c, "valkey"))
	require.Equal(t, []string{"gateway.target", "valkey.target"}, NodeTargets(c, n))
	require.Equal(t, []string{"6380/tcp"}, portsOf(c, n, "valkey"))
	require.Equal(t, []string{"4841/tcp"}, portsOf(c, n, "gateway"))
	require.Contains(t, Environment(c, n, 0), "valkey.env")
	require.False(t, RunsPods(c, n))
	require.Equal(t, []string{"a"}, Members(c, "valkey"))

	c.Roles = nil // The same without the rows.
	require.False(t, Enabled(c, "valkey"))
	require.Empty(t, NodeTargets(c, n))
	require.Empty(t, NodePrograms(c, n))
}

func TestOwnRolesAndTheirSettingsComeBackFromJSON(t *testing.T) {
	c, _ := plant(t)
	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.Contains(t, string(text), `"roles":{"gateway":{"name":"gateway","port":4840},"valkey":{"name":"valkey","port":6379}}`)
	var got facts.Cluster
	require.NoError(t, readCluster(text, &got, readPlain))
	require.Equal(t, Of(c).Names(), Of(&got).Names())
	require.Equal(t, c.Services, got.Services)
	again, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))

	require.NoError(t, readCluster([]byte(`{"name":"plant"}`), &got, readPlain))
	require.Nil(t, got.Roles, "what was there is dropped")
	require.Nil(t, got.Services)
	require.NoError(t, readCluster([]byte(`{"roles":null}`), &got, readPlain))
	require.NoError(t, readCluster([]byte(`{"roles":{}}`), &got, readPlain))
	require.Nil(t, got.Roles)
}

func TestOwnRolesThatAreMalformed(t *testing.T) {
	for text, want := range map[string]string{
		`{"roles":[]}`:                            "roles: ",
		`{"roles":{"valkey":5}}`:                  "role valkey: ",
		`{"roles":{"valkey":{"port":"x"}}}`:       "role valkey: ",
		`{"roles":{"mqtt":{"name":"mqtt"}}}`:      "the role mqtt has the name mqtt",
		`{"roles":{"valkey":{"name":"gateway"}}}`: "role valkey: it is called gateway",
		`{"roles":{"valkey":{"name":"valkey"}},"services":{"valkey":{"port":"x"}}}`: "settings of valkey: ",
	} {
		require.ErrorContains(t, readCluster([]byte(text), new(facts.Cluster), readPlain), want, text)
	}
}

func TestARowThatWouldTakeWhatAnotherHas(t *testing.T) {
	row := func(name string, change func(*service.Service)) Definition {
		return &plain{Name: name, Port: 6379, change: change}
	}
	for what, tt := range map[string]struct {
		own  []Definition
		want string
	}{
		"the name of a service":  {[]Definition{row("mqtt", nil)}, "the role mqtt has the name mqtt, which is that of mqtt; choose another"},
		"the name of a role":     {[]Definition{row("worker", nil)}, "the role worker has the name worker, which is that of kubernetes; choose another"},
		"an alias":               {[]Definition{row("master", nil)}, "the role master has the name master, which is that of kubernetes; choose another"},
		"the name of a part":     {[]Definition{row("cephfs", nil)}, "the role cephfs has the name cephfs, which is that of ceph; choose another"},
		"a program of ours":      {[]Definition{row("mosquitto", nil)}, "the role mosquitto has the program mosquitto, which is that of mqtt; choose another"},
		"a program of all nodes": {[]Definition{row("api", nil)}, "the role api has the program api, which is that of every machine; choose another"},
		"a file of all nodes":    {[]Definition{row("node", nil)}, "the role node has the program node, which is that of every machine; choose another"},
		"a unit of the system": {[]Definition{row("valkey", func(s *service.Service) { s.Programs[0].Unit = "systemd-networkd.service" })},
			"the role valkey has the unit systemd-networkd.service, which is that of every machine; choose another"},
		"a user of every machine": {[]Definition{row("valkey", func(s *service.Service) { s.Programs[0].User = "spore-api" })},
			"the role valkey has the user spore-api, which is that of every machine; choose another"},
		"a port of every machine": {[]Definition{row("valkey", func(s *service.Service) { s.Programs[0].Ports = []service.Port{service.TCP(8643, "clients")} })},
			"the role valkey has the port 8643/tcp, which is that of every machine; choose another"},
		"an authority of every cluster": {[]Definition{row("valkey", func(s *service.Service) { s.Authorities = []service.AuthorityRow{{Name: "signing"}} })},
			"the role valkey has the authority signing, which is that of every machine; choose another\n" +
				"the role valkey has the bundle entry signing-ca-key, which is that of every machine; choose another"},
		"an authority": {[]Definition{row("valkey", func(s *service.Service) { s.Authorities = []service.AuthorityRow{{Name: "etcd"}} })},
			"the role valkey has the authority etcd, which is that of kubernetes; choose another"},
		"a certificate": {[]Definition{row("valkey", func(s *service.Service) { s.Leaves = []service.LeafRow{{Name: "mqtt-server"}} })},
			"the role valkey has the certificate mqtt-server, which is that of mqtt; choose another"},
		"a secret": {[]Definition{row("valkey", func(s *service.Service) { s.Secrets = []service.SecretRow{{Name: "state-recovery-key", Entry: "x"}} })},
			"the role valkey has the secret state-recovery-key, which is that of every machine; choose another"},
		"an entry of every bundle": {[]Definition{row("valkey", func(s *service.Service) { s.Secrets = []service.SecretRow{{Name: "x", Entry: "agent-key"}} })},
			"the role valkey has the bundle entry agent-key, which is that of every machine; choose another"},
		"a use of disks": {[]Definition{row("valkey", func(s *service.Service) { s.Disks = map[string]string{"osd": "valkey"} })},
			"the role valkey has the use of disks osd, which is that of ceph; choose another"},
		"a word": {[]Definition{row("valkey", func(s *service.Service) { s.Words = map[string]service.Word{"{fqdn}": nil} })},
			"the role valkey has the word {fqdn}, which is that of every machine; choose another"},
		"a program of another of the configuration": {
			[]Definition{row("gateway", nil), row("valkey", func(s *service.Service) { s.Programs[0].Name = "gateway" })},
			"the role valkey has the program gateway, which is that of gateway; choose another"},
	} {
		t.Run(what, func(t *testing.T) {
			l, err := With(append(tt.own, row("other", nil)))
			require.EqualError(t, err, tt.want)
			require.True(t, errors.As(err, new(Clash)) && errors.As(err, new(Clashes)))
			_, ok := l.Find("other")
			require.True(t, ok, "the others are there")
			require.Len(t, l.OwnNames(), len(tt.own))
		})
	}
}

// Where mqtt is off, a plant may run its broker by a role of its own.
func TestWhatRowsMayShare(t *testing.T) {
	broker := func(s *service.Service) {
		s.Roles[0].Target, s.Programs[0].Unit, s.Programs[0].User = "mqtt.target", "mosquitto.service", "mosquitto"
		s.Programs[0].Ports = []service.Port{service.TCP(8883, "MQTT over TLS")}
		s.Secrets = []service.SecretRow{{Name: s.Name + "-password", Entry: "mqtt-password"}}
	}
	root := func(s *service.Service) { s.Programs[0].User = "root" }
	l, err := With([]Definition{&plain{Name: "broker", change: broker}, &plain{Name: "a", Port: 8883, change: root}, &plain{Name: "b", Port: 8883, change: root}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "broker"}, l.OwnNames())
}
