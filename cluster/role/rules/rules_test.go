package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/role/rules"
	"spore/cluster/spec"
	"spore/services/service"
)

// page is a file whose places are all at its beginning.
type page string

func (p page) Path() string              { return string(p) }
func (p page) At(...any) (line, col int) { return 1, 1 }
func (p page) Has(...any) bool           { return true }
func (p page) Faulty(line, col int) bool { return false }

func TestAPortIsFreeOnEachNode(t *testing.T) {
	port := func(name string, p role.Port) rules.Source {
		p.For = "x"
		return rules.Source{File: page("roles/" + name + ".yaml"), Definition: &role.Definition{Name: name, Description: "x", Memory: "1MiB", Architectures: []string{"amd64"}, Units: []string{name + ".service"}, Ports: []role.Port{p}}}
	}
	rest := rules.Rest{Ports: []rules.Listener{
		{Protocol: "tcp", First: 8643, Last: 8643, At: "everywhere", Whose: "api of the node itself"},
		{Protocol: "tcp", First: 9092, Last: 9092, At: "node", Whose: "kafka of the service kafka", Roles: []string{"kafka-broker"}},
	}}
	for name, tc := range map[string]struct {
		a, b role.Port
		want string
	}{
		"two ports":                          {role.Port{Port: 1}, role.Port{Port: 2}, ""},
		"one port on one node":               {role.Port{Port: 1}, role.Port{Port: 1}, "b.yaml: port 1/tcp is not free on node both: the role aa has it; write another port, or give node both one of the two roles"},
		"another protocol":                   {role.Port{Port: 1}, role.Port{Port: 1, Protocol: "udp"}, ""},
		"other addresses":                    {role.Port{Port: 1, At: "node"}, role.Port{Port: 1, At: "loopback"}, ""},
		"some of the addresses":              {role.Port{Port: 1}, role.Port{Port: 1, At: "loopback"}, "b.yaml: port 1/tcp is not free on node both: the role aa has it; write another port, or give node both one of the two roles"},
		"a port in a range":                  {role.Port{Port: 1, To: 5}, role.Port{Port: 5}, "b.yaml: port 5/tcp is not free on node both: the role aa has it; write another port, or give node both one of the two roles"},
		"two ranges":                         {role.Port{Port: 1, To: 5}, role.Port{Port: 5, To: 6}, ""},
		"the port of every node":             {role.Port{Port: 8643}, role.Port{Port: 2}, "a.yaml: port 8643/tcp is not free on node both: api of the node itself has it; write another port, or give node both one of the two roles"},
		"a port of a service elsewhere":      {role.Port{Port: 2}, role.Port{Port: 9092}, ""},
		"a port of a service on a node":      {role.Port{Port: 9092}, role.Port{Port: 2}, "a.yaml: port 9092/tcp is not free on node broker: kafka of the service kafka has it; write another port, or give node broker one of the two roles"},
		"one that a setting gives, later":    {role.Port{Port: 1}, role.Port{Port: 2}, ""},
		"a service's port at other adresses": {role.Port{Port: 9092, At: "loopback"}, role.Port{Port: 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := &check.Checker{
				Cluster: &spec.Cluster{Nodes: []spec.Node{{Name: "both", Roles: []string{"aa", "bb"}}, {Name: "broker", Roles: []string{"aa", "kafka-broker"}}}},
				Role:    func(name string) string { return name },
			}
			rules.CheckAll(k, []rules.Source{port("aa", tc.a), port("bb", tc.b)}, rest)
			var got []string
			for _, p := range k.Report {
				got = append(got, fmt.Sprintf("%s: %s", strings.TrimPrefix(p.File, "roles/")[1:], p.Message))
			}
			require.Equal(t, tc.want, strings.Join(got, "\n"))
		})
	}
}

func TestWhatServicesHaveIsTaken(t *testing.T) {
	rows := []service.Service{{
		Name: "s", Roles: []service.Role{{Name: "r", Aliases: []string{"alias"}, Target: "s.target", Programs: []string{"p"}}},
		Programs:    []service.Program{{Name: "p", Unit: "p.service", User: "u", Secrets: []string{"e"}, Ports: []service.Port{service.TCP(1, "x").On(service.Node)}}},
		Authorities: []service.AuthorityRow{{Name: "a"}}, Leaves: []service.LeafRow{{Name: "l"}, {Name: "m", Certificate: "mc", Key: "mk"}},
		Secrets: []service.SecretRow{{Name: "t", Entry: "te"}},
	}}
	every := []service.Program{{Name: "api", Unit: "api.service", User: "root", Ports: []service.Port{service.TCP(2, "x")}}}
	whose := func(r rules.Rest, m map[string]string) []string {
		var out []string
		for name, w := range m {
			out = append(out, name+": "+w)
		}
		return out
	}
	r := rules.RestOf(rows, func(string) bool { return true }, every)
	require.ElementsMatch(t, []string{"s: the service s", "r: the service s", "alias: the service s", "p: the service s", "api: the node itself"}, whose(r, r.Names))
	require.ElementsMatch(t, []string{"s.target: the service s", "p.service: the service s", "api.service: the node itself"}, whose(r, r.Units))
	require.ElementsMatch(t, []string{"u: the service s"}, whose(r, r.Users))
	require.Equal(t, "the service s", r.Paths["/var/lib/s"])
	require.Subset(t, r.Secrets, map[string]string{"e": "the service s", "a-ca-key": "the service s", "l-certificate": "the service s", "mc": "the service s", "te": "the service s", "state-recovery-key": "the node itself"})
	require.Subset(t, r.Authorities, map[string]string{"a": "the service s", "root": "the node itself"})
	require.Equal(t, []rules.Listener{
		{Protocol: "tcp", First: 2, Last: 2, At: "everywhere", Whose: "api of the node itself"},
		{Protocol: "tcp", First: 1, Last: 1, At: "node", Whose: "p of the service s", Roles: []string{"r"}},
	}, r.Ports)

	off := rules.RestOf(rows, func(string) bool { return false }, nil)
	require.Contains(t, off.Names, "p")
	require.NotContains(t, off.Units, "p.service")
	require.NotContains(t, off.Secrets, "e")
	require.Empty(t, off.Ports)
}

func TestAProgramOfAFolderWithoutPrograms(t *testing.T) {
	d := &role.Definition{Name: "xx", Description: "x", Memory: "1MiB", Architectures: []string{"amd64"}, Units: []string{"xx.service"}, Programs: []string{"gateway"}}
	for want, programs := range map[string][]string{
		`programs/ has no program "gateway"; write programs/NAME.yaml for it, or name a Debian package under packages`: nil,
		"": {"gateway"},
	} {
		k := &check.Checker{Cluster: &spec.Cluster{}}
		rules.CheckAll(k, []rules.Source{{Definition: d, File: page("roles/x.yaml")}}, rules.Rest{Programs: programs})
		got := ""
		for _, p := range k.Report {
			got += p.Message
		}
		require.Equal(t, want, got)
	}
}
