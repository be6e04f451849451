package detect

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/nic"
	"spore/cluster/identity"
)

// plant has a node for each kind of evidence.
func plant(t testing.TB) *identity.Index {
	b, err := identity.Build([]identity.Node{
		{Name: "edge-01", Hostnames: []string{"edge-01"}, MACs: []string{"52:54:00:77:00:0b"}, IPs: []string{"10.77.0.11"}},
		{Name: "mqtt-01", Hostnames: []string{"mqtt-01"}, IPs: []string{"10.77.0.12"}},
		{Name: "dns-01", Hostnames: []string{"dns-01", "dns-01.plant.example"}},
		{Name: "kafka-01", Hostnames: []string{"kafka-01"}, Serial: "CZ1"},
	})
	require.NoError(t, err)
	x, err := identity.FromBytes(b)
	require.NoError(t, err)
	return x
}

// bare is a machine with one card, of no node.
func bare(t testing.TB) Machine {
	return Machine{
		Sys: fstest.MapFS{}, Leases: fstest.MapFS{}, Match: plant(t).Match, Say: func(string) {},
		Cards: func() ([]nic.Card, error) {
			return []nic.Card{{Index: 2, MAC: "52:54:00:00:00:01", Up: true, Carrier: true}}, nil
		},
		Settled:   func(context.Context) error { return nil },
		CardBound: 30 * time.Millisecond, CarrierBound: 30 * time.Millisecond, LeaseBound: 100 * time.Millisecond, SilentBound: 50 * time.Millisecond,
	}
}

func withCards(macs ...string) func() ([]nic.Card, error) {
	return func() (cards []nic.Card, err error) {
		for i, m := range macs {
			cards = append(cards, nic.Card{Index: i + 2, MAC: m, Up: true, Carrier: true})
		}
		return cards, nil
	}
}

func TestPhaseOne(t *testing.T) {
	credentials := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.node"), []byte("dns-01\n"), 0o600))
	for name, tc := range map[string]struct {
		change            func(*Machine)
		node, by, problem string
		advice            string
	}{
		"a MAC decides":                    {func(m *Machine) { m.Cards = withCards("52:54:00:00:00:01", "52:54:00:77:00:0b") }, "edge-01", "mac", "", ""},
		"a serial decides":                 {func(m *Machine) { m.Sys = fstest.MapFS{"class/dmi/id/product_serial": {Data: []byte("CZ1\n")}} }, "kafka-01", "serial", "", ""},
		"the command line decides":         {func(m *Machine) { m.Cmdline = "ro spore.node=mqtt-01 quiet\n" }, "mqtt-01", "cmdline", "", ""},
		"the SMBIOS credential decides":    {func(m *Machine) { m.Credentials = credentials; m.ESPNode = "mqtt-01" }, "dns-01", "smbios", "", ""},
		"the ESP decides":                  {func(m *Machine) { m.ESPNode = "mqtt-01" }, "mqtt-01", "esp", "", ""},
		"nothing known leaves it to DHCP":  {func(m *Machine) {}, "", "", "", ""},
		"a machine without cards is asked": {func(m *Machine) { m.Cards = withCards() }, "", "", "", ""},
		"an unknown choice is a problem": {
			func(m *Machine) { m.ESPNode = "edge-99" }, "", "esp", `chooses node "edge-99", which cluster.yaml does not have`, "choose a node that cluster.yaml has",
		},
		"two nodes are a problem": {
			func(m *Machine) {
				m.Cards = withCards("52:54:00:77:00:0b")
				m.Sys = fstest.MapFS{"class/dmi/id/product_serial": {Data: []byte("CZ1\n")}}
			}, "", "", "more than one node: mac 52:54:00:77:00:0b is edge-01, serial cz1 is kafka-01; it has MACs 52:54:00:77:00:0b, serial number CZ1", "let only one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := bare(t)
			tc.change(&m)
			id, err := PhaseOne(context.Background(), m)
			require.NoError(t, err)
			require.Equal(t, tc.node, id.Node)
			require.Equal(t, tc.by, id.By)
			require.Contains(t, id.Problem, tc.problem)
			require.Equal(t, tc.problem == "", id.Problem == "")
			require.Contains(t, id.Advice, tc.advice)
		})
	}
}

func TestAnExplicitChoiceDoesNotWaitForTheHardware(t *testing.T) {
	m := bare(t)
	m.Cmdline = "spore.node=edge-01"
	m.Settled = func(context.Context) error { t.Fatal("waits for udev"); return nil }
	_, err := PhaseOne(context.Background(), m)
	require.NoError(t, err)
}

func TestALateCardIsWaitedFor(t *testing.T) {
	m := bare(t)
	asked := 0
	m.CardBound = 10 * time.Second
	m.Changed = make(chan struct{})
	m.Cards = func() ([]nic.Card, error) {
		if asked++; asked < 3 {
			return nil, nil
		}
		return withCards("52:54:00:77:00:0b")()
	}
	id, err := PhaseOne(context.Background(), m)
	require.NoError(t, err)
	require.Equal(t, "edge-01", id.Node)
}

func TestErrorsOfTheMachineAreErrors(t *testing.T) {
	m := bare(t)
	m.Cards = func() ([]nic.Card, error) { return nil, errors.New("no netlink") }
	_, err := PhaseOne(context.Background(), m)
	require.ErrorContains(t, err, "no netlink")
	_, err = PhaseTwo(context.Background(), m, Identity{})
	require.ErrorContains(t, err, "no netlink")
}

func TestPhaseTwo(t *testing.T) {
	lease := func(s string) fstest.MapFS { return fstest.MapFS{"2": {Data: []byte(s)}} }
	for name, tc := range map[string]struct {
		change            func(*Machine)
		node, by, problem string
		advice            string
		says              string
	}{
		"a DHCP address decides":   {func(m *Machine) { m.Leases = lease("ADDRESS=10.77.0.12\n") }, "mqtt-01", "ip", "", "", ""},
		"a DHCP host name decides": {func(m *Machine) { m.Leases = lease("ADDRESS=10.77.0.140\nHOSTNAME=dns-01\n") }, "dns-01", "hostname", "", "", ""},
		"a DHCP host name with its domain decides": {
			func(m *Machine) { m.Leases = lease("ADDRESS=10.77.0.140\nHOSTNAME=dns-01\nDOMAINNAME=plant.example\n") }, "dns-01", "hostname", "", "", "",
		},
		"an address and a host name of two nodes are a problem": {
			func(m *Machine) { m.Leases = lease("ADDRESS=10.77.0.12\nHOSTNAME=dns-01\n") }, "", "", "more than one node", "let only one", "",
		},
		"a machine of no node is told what to add": {
			func(m *Machine) { m.Leases = lease("ADDRESS=10.77.0.140\n") }, "", "",
			"this machine is in no file of the configuration; it has MACs 52:54:00:00:00:01, DHCP addresses 10.77.0.140, serial number None; add one of these",
			`macs: ["52:54:00:00:00:01"] or ips: ["10.77.0.140"]`, "",
		},
		"no server is waited for no longer than the bound": {func(m *Machine) {}, "", "", "in no file", "macs:", "no answer for 52:54:00:00:00:01"},
		"a server that comes up late is waited for": {
			func(m *Machine) {
				m.SilentBound = 20 * time.Second
				start := time.Now()
				m.Leases = lateFS{start.Add(300 * time.Millisecond), lease("ADDRESS=10.77.0.12\n")}
			}, "mqtt-01", "ip", "", "", "no answer for 52:54:00:00:00:01",
		},
		"a card without a carrier is not waited for": {
			func(m *Machine) {
				m.LeaseBound = time.Hour
				m.Leases = lease("ADDRESS=10.77.0.12\n")
				m.Cards = func() ([]nic.Card, error) {
					return []nic.Card{{Index: 2, MAC: "52:54:00:00:00:01", Up: true, Carrier: true}, {Index: 3, MAC: "52:54:00:00:00:02", Up: true}}, nil
				}
			}, "mqtt-01", "ip", "", "", "",
		},
		"a second card with a carrier is waited for": {
			func(m *Machine) {
				m.Leases = lease("ADDRESS=10.77.0.12\n")
				m.Cards = withCards("52:54:00:00:00:01", "52:54:00:00:00:02")
			}, "mqtt-01", "ip", "", "", "no answer for 52:54:00:00:00:02",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := bare(t)
			said := ""
			m.Say = func(s string) { said += s }
			tc.change(&m)
			id, err := PhaseTwo(context.Background(), m, Identity{Seen: Seen{Serial: "None"}})
			require.NoError(t, err)
			require.Equal(t, tc.node, id.Node)
			require.Equal(t, tc.by, id.By)
			require.Contains(t, id.Problem, tc.problem)
			require.Equal(t, tc.problem == "", id.Problem == "")
			require.Contains(t, id.Advice, tc.advice)
			require.Contains(t, said, tc.says)
			require.NotContains(t, id.Advice, "None", "a placeholder is no serial number to be known by")
			if tc.node != "" {
				require.Equal(t, 2, id.Phase)
			}
		})
	}
}

// lateFS has its files from a time on.
type lateFS struct {
	from time.Time
	fs.FS
}

func (l lateFS) Open(name string) (fs.File, error) {
	if time.Now().Before(l.from) {
		return nil, fs.ErrNotExist
	}
	return l.FS.Open(name)
}

func TestArgument(t *testing.T) {
	for cmdline, want := range map[string]string{
		"": "", "spore.node=a": "a", "x spore.node=a spore.node=b\n": "b", `spore.node="c"`: "c", "spore.nodes=a": "", "spore.node": "",
	} {
		require.Equal(t, want, Argument(cmdline, "spore.node"), cmdline)
	}
}
