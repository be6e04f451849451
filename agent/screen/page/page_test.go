package page

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/status"
	"spore/services"
	"spore/wire/machine"
)

// now is the machine's time in tests.
var now = time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)

// node is a node that is up.
func node() *Model {
	return &Model{
		Now: now,
		Status: &Status{
			Cluster: "plant", Node: "edge-01", System: "running", Roles: []string{"dns-server", "mqtt-broker"},
			Services: map[string]string{"dns.target": "active", "coredns.service": "active", "mqtt.target": "active",
				"mosquitto.service": "active"},
			Addresses: []string{"10.77.0.11", "fd00::11"}, BuildTime: now.Unix(),
			State: &State{Kind: "partition", Device: "/dev/mapper/spore-state", Disk: "S1",
				Encryption: &Encryption{Opened: "tpm2", Next: "tpm2", Policy: "PCR 7"}},
			Bundle:        &Bundle{Serial: 3, From: "medium", Sealed: "tpm2"},
			Configuration: &Configuration{RootHash: strings.Repeat("ab", 32), ClusterHash: strings.Repeat("cd", 32), Serial: 7},
			Updates:       &Updates{At: now, From: "https://updates.plant.example", Serial: 7, Result: "nothing newer"},
			Firmware:      &Firmware{SecureBoot: true, Lockdown: "integrity"},
			Watchdog:      &Watchdog{Identity: "iTCO_wdt", Seconds: 30, Held: true}, BootDisk: "S1",
			Clock:    &Clock{Synchronized: true, From: "10.77.0.3"},
			Versions: map[string]string{"mosquitto": "2.0.21"},
		},
		Journal: []string{"Mar 01 12:29:59 mosquitto[512]: New connection", "Mar 01 12:29:58 kernel: eth0: link up"},
		Network: &machine.Network{
			Links: []machine.Link{
				{Name: "eth0", Kind: "device", MAC: "52:54:00:fe:ed:01", Up: true, Carrier: true, Speed: 1000,
					Duplex: "full", Addresses: []string{"10.77.0.11/24"}},
				{Name: "eth1", Kind: "device", MAC: "52:54:00:fe:ed:02", Up: true},
			},
			Routes: []machine.Route{{To: "0.0.0.0/0", Via: "10.77.0.1", Link: "eth0"}, {To: "10.77.0.0/24", Link: "eth0"}},
			LLDP: []machine.Station{{Link: "eth0", Name: "switch-3", Chassis: "00:11:22:33:44:55", Port: "ge-0/0/7",
				PortIs: "hall 2, rack 4", VLAN: 12}},
			DNS: []string{"10.77.0.3"}, Search: []string{"plant.example"},
		},
		Answers: []Answer{{Of: "gateway", To: "10.77.0.1", Text: "0.4 ms"}, {Of: "DNS", To: "10.77.0.3",
			Problem: "no answer within 2s"}},
		Disks: []machine.Disk{{
			Name: "sda", Size: 64 << 30, Model: "DISK 64", Transport: "sata", Serials: []string{"S1"},
			About: "the machine was booted from it",
			Partitions: []machine.Partition{{Number: 1, Name: "sda1", Size: 1 << 30, FileSystem: "vfat", Label: "ESP"},
				{Number: 8, Name: "sda8", Size: 50 << 30, FileSystem: "crypto_LUKS", Mounts: []string{"/var"},
					Fill: &machine.Fill{Size: 100, Used: 42}}},
		}},
		Secrets: &machine.Bundle{Certificates: []machine.Certificate{
			{Name: "agent", Ends: now.Add(400 * 24 * time.Hour)}, {Name: "mqtt", Ends: now.Add(-time.Hour)},
		}},
		Hardware: &Hardware{Rows: [][2]string{{"maker", "ACME"}, {"model", "Box 9"}, {"serial", "SN-1"}, {"memory",
			"8.0 GiB"}}},
	}
}

// broken is a node where much is wrong.
func broken() *Model {
	m := node()
	s := m.Status
	s.System, s.Failed = "degraded", []string{"mosquitto.service"}
	s.Services["mqtt.target"], s.Services["mosquitto.service"] = "inactive", "failed"
	s.Held = []Held{{"kafka-broker", "its disk is missing: serial S-77 is not in this machine"}}
	s.Waiting = map[string]string{"ceph-mon": "for 2 of 3 monitors: stor-02, stor-03"}
	s.Conflicts = []Conflict{{"10.77.0.11", "52:55:0a:4d:00:03"}}
	s.Bundle.Problem = "waiting for the passphrase"
	s.Clock.Problem = "no time server has answered for 10 minutes"
	return m
}

// unmatched is a machine that does not match any node.
func unmatched() *Model {
	const advice = `add one of these to a node in cluster.yaml: macs: ["52:54:00:fe:ed:01"] or serial: "SN-1"; then run ` +
		"`spore build` and boot the new image"
	return &Model{
		Now: now,
		Status: &Status{
			Cluster: "plant", System: "running", Advice: advice,
			Problem: "no node has these values; it has MACs 52:54:00:fe:ed:01; " + advice,
			Seen: &Seen{MACs: []string{"52:54:00:fe:ed:01"}, Serial: "SN-1",
				UUID: "5b1c0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Hostnames: []string{"guest"}},
		},
		Cards: []Card{{Name: "eth0", MAC: "52:54:00:fe:ed:01", Carrier: true, Addresses: []string{"192.0.2.7/24"}},
			{Name: "eth1", MAC: "52:54:00:fe:ed:02"}},
	}
}

// sizes are those of monitors: of text mode and of serial lines, of a VGA card, one that is smaller than any that is
// known, and of 3840x2160 pixels with the largest and with a usual font of the kernel. few has the golden files of some
// pages alone.
var sizes = []struct {
	width, height int
	few           bool
}{{80, 24, false}, {100, 37, false}, {40, 12, true}, {120, 33, true}, {240, 67, true}}

// TestPages compares each page with its text in testdata; UPDATE=1 writes it.
func TestPages(t *testing.T) {
	models := map[string]*Model{"node": node(), "broken": broken(), "unmatched": unmatched(), "early": {Now: now,
		StatusProblem: "there is no status line"}}
	for name, m := range models {
		for _, e := range Pages() {
			for _, size := range sizes {
				if name != "node" && e.Name != StatusPage && e.Name != ServicesPage && e.Name != NetworkPage {
					continue
				}
				if size.few && e.Name != StatusPage && (name != "node" || e.Name != NetworkPage && e.Name != DisksPage) {
					continue
				}
				file := fmt.Sprintf("testdata/%s-%s-%dx%d.txt", name, e.Title, size.width, size.height)
				t.Run(filepath.Base(file), func(t *testing.T) {
					g, _ := m.Render(View{Page: e.Name}, size.width, size.height)
					if os.Getenv("UPDATE") != "" {
						require.NoError(t, os.WriteFile(file, []byte(g.String()), 0o644))
					}
					want, err := os.ReadFile(file)
					require.NoError(t, err)
					require.Equal(t, string(want), g.String())
				})
			}
		}
	}
}

func TestTheTitleSaysTheWorst(t *testing.T) {
	for _, tc := range []struct {
		change func(*Status)
		want   string
	}{
		{func(*Status) {}, wordOK},
		{func(s *Status) { s.System = "starting" }, wordStarts},
		{func(s *Status) { s.Waiting = map[string]string{"a": "b"} }, wordWaits},
		{func(s *Status) { s.Held, s.Waiting = []Held{{"a", "b"}}, map[string]string{"a": "b"} }, wordHeld},
		{func(s *Status) { s.Failed, s.Held = []string{"a.service"}, []Held{{"a", "b"}} }, wordFailed},
		{func(s *Status) { s.System = "degraded" }, wordFailed},
		{func(s *Status) { s.Node, s.Failed = "", []string{"a.service"} }, wordNoNode},
	} {
		m := node()
		tc.change(m.Status)
		g, _ := m.Render(View{}, 80, 24)
		require.Contains(t, strings.SplitN(g.String(), "\n", 2)[0], tc.want+"  12:30 UTC")
	}
}

func TestKeysFitIntoTheSmallestTerminal(t *testing.T) {
	g, _ := node().Render(View{Leaves: true}, 80, 24)
	lines := strings.Split(strings.TrimSuffix(g.String(), "\n"), "\n")
	require.Len(t, lines, 24)
	for _, e := range Pages() {
		require.Contains(t, lines[23], fmt.Sprintf("%c %s", e.Key, e.Short))
	}
	require.Contains(t, lines[23], "q quit")
}

func TestANarrowTerminalIsToldOfItsKeys(t *testing.T) {
	g, _ := node().Render(View{Leaves: true}, 40, 12)
	require.Contains(t, g.String(), "1 to 8 are pages  q quit")
	g, _ = node().Render(View{}, 40, 12)
	require.Contains(t, g.String(), "1 to 8 are pages")
}

// What a person has to write down is whole at each size, on lines that can be scrolled to.
func TestNothingThatMattersIsCut(t *testing.T) {
	for _, size := range sizes {
		for name, m := range map[string]*Model{"unmatched": unmatched(), "broken": broken()} {
			text := ""
			for scroll := 0; ; scroll++ {
				g, used := m.Render(View{Scroll: scroll}, size.width, size.height)
				if used < scroll {
					break
				}
				_, rows, _ := strings.Cut(g.String(), "\n")
				text += strings.Join(strings.Fields(rows), "") // A long word may be broken.
			}
			for _, want := range map[string][]string{
				"unmatched": {"52:54:00:fe:ed:01", "SN-1", "5b1c0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", `serial:"SN-1"`, "keyn"},
				"broken":    {"[FAIL]mosquitto.service", "kafka-broker:", "52:55:0a:4d:00:03", "stor-03", "UNIT", "passphrase"},
			}[name] {
				require.Contains(t, text, want, "%dx%d", size.width, size.height)
			}
			require.NotContains(t, text, "...", "%dx%d", size.width, size.height)
		}
	}
}

func TestAQuestionIsAskedWithoutTheAnswer(t *testing.T) {
	m := node()
	m.Status.Bundle.Problem = "waiting for the passphrase"
	m.Question, m.Typed = "That was wrong. Passphrase of the secret bundle of edge-01:", 7
	g, _ := m.Render(View{Page: QuestionPage}, 80, 24)
	for _, want := range []string{" asked       That was wrong. Passphrase of", " answer      *******_\n",
		" why         waiting for", " tries       as many", " without     the node goes on"} {
		require.Contains(t, g.String(), want)
	}
	require.NotContains(t, g.String(), "2 services", "digits belong to the answer")
	g, _ = m.Render(View{}, 80, 24)
	require.Contains(t, g.String(), "edge-01: Press\n             p to answer.")
	for _, bad := range hostile {
		m.Question, m.Typed = bad, 1<<30
		g, _ = m.Render(View{Page: QuestionPage}, 80, 24)
		fits(t, g.String(), 80, 24)
		require.Contains(t, g.String(), "without     the node goes on")
	}
}

func TestAllOfALongPageIsReachedByScrolling(t *testing.T) {
	m := node()
	m.Journal = nil
	for i := range 100 {
		m.Journal = append(m.Journal, fmt.Sprintf("line-%03d", i))
	}
	seen := map[string]bool{}
	for scroll := 0; ; scroll++ {
		g, used := m.Render(View{Page: JournalPage, Scroll: scroll}, 80, 24)
		for _, l := range strings.Fields(g.String()) {
			seen[l] = true
		}
		if used < scroll {
			require.NotContains(t, g.String(), "lines below")
			break
		}
	}
	for _, l := range m.Journal {
		require.True(t, seen[l], l)
	}
	g, _ := m.Render(View{Page: JournalPage}, 80, 24)
	require.Contains(t, g.String(), "lines below: Down, PgDn, Space --")
}

// hostile are texts that a terminal obeys, that are wider than they look, or that have no end.
var hostile = []string{
	"\x1b[2J\x1b[H\x1b]0;x\x07", "\u009b31m", "a\u0301\u0302\u0303", "\u65e5\u672c\u8a9e",
	"\u202egnp.exe", "\u200b\ufeff\u2028x", "\xff\xfe\x80",
	strings.Repeat("x", 10<<10), strings.Repeat("x ",
		10<<10), "a\r\nb\tc\x00\x08\x7f", "\U0001F600", strings.Repeat("\u0489", 3000),
}

func TestTextFromElsewhereDrawsNothingAndHidesNothing(t *testing.T) {
	for _, bad := range hostile {
		m := broken()
		s := m.Status
		s.Addresses, s.Failed = []string{bad}, []string{"mosquitto.service"}
		s.Held[0].Reason, s.Waiting["ceph-mon"], s.Bundle.Problem, s.Clock.Problem = bad, bad, bad, "the last one"
		m.Journal, m.Answers[0].Text = []string{bad, "the second"}, bad
		m.Network.LLDP = []machine.Station{{Link: bad, Name: bad, Port: bad, PortIs: bad}, {Link: "eth0",
			Name: "the second", Port: "7"}}
		m.Disks[0].Model, m.Disks[0].Partitions[0].Label, m.Disks[0].About = bad, bad, bad
		m.Hardware.Rows = [][2]string{{bad, bad}, {"serial", "the second"}}
		for _, size := range [][2]int{{80, 24}, {40, 12}, {240, 67}} {
			readsPast(t, m, size[0], size[1])
		}
		m.Status.Node, m.Status.Cluster = bad, bad
		g, _ := m.Render(View{}, 80, 24)
		require.Contains(t, g.String(), wordFailed+"  12:30 UTC", "a long name hides no word")
	}
}

// readsPast turns through all pages of a machine with text from elsewhere, and holds that what follows it is there.
func readsPast(t *testing.T, m *Model, width, height int) {
	for _, e := range Pages() {
		all := ""
		for scroll := 0; ; scroll += height / 2 {
			g, used := m.Render(View{Page: e.Name, Scroll: scroll}, width, height)
			text := g.String()
			fits(t, text, width, height)
			all += text
			if used < scroll {
				break
			}
		}
		switch e.Name {
		case StatusPage:
			require.Contains(t, all, markFailed+" mosquitto.service")
			require.Contains(t, all, "the last one")
		case JournalPage, HardwarePage, NetworkPage:
			require.Contains(t, all, "the second")
		}
	}
}

// fits holds a page to its size and to ASCII.
func fits(t testing.TB, text string, width, height int) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Len(t, lines, height)
	for _, l := range lines {
		require.LessOrEqual(t, len(l), width)
		for _, c := range []byte(l) {
			require.True(t, c >= ' ' && c < 0x7f, "%q", l)
		}
	}
}

func TestEverySizeIsDrawn(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {1, 1}, {5, 3}, {20, 5}, {40, 12}, {80, 24}, {240, 67}, {480, 135}} {
		for _, m := range []*Model{node(), broken(), unmatched(), {}} {
			for _, e := range Pages() {
				g, _ := m.Render(View{Page: e.Name, Scroll: 1 << 30}, size[0], size[1])
				fits(t, g.String(), max(size[0], 1), max(size[1], 1))
			}
		}
	}
}

func TestLargeLettersAreComplete(t *testing.T) {
	for c := range letters {
		require.Len(t, letters[c], letterWidth*letterHeight, "%c", c)
	}
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-." {
		require.Contains(t, letters, byte(c))
	}
	require.Nil(t, large(strings.Repeat("a", 14), 80, 1))
	require.Nil(t, large("a_b", 80, 1))
	require.Len(t, large(strings.Repeat("a", 13), 80, 1), letterHeight)
}

// A monitor of 3840x2160 pixels has cells of 2 mm: letters that are as large there as on others say how the node is.
func TestLettersGrowWithTheMonitor(t *testing.T) {
	for _, tc := range []struct{ width, room, rows int }{
		{80, 20, 5}, {80, 4, 0}, {40, 20, 0}, {159, 20, 5}, {160, 21, 21}, {160, 20, 5}, {240, 60, 31}, {240, 30, 21},
	} {
		require.Len(t, banner("edge-01", wordFailed, tc.width, tc.room), tc.rows, tc)
	}
	m := broken()
	m.Status.Held = nil
	g, _ := m.Render(View{}, 240, 67)
	require.Contains(t, g.String(), "\n ###############      #########         #########      ###               ####",
		"FAILED, three times as large")
}

// TestEachRoleIsKnownByItsTarget compares the table with the list of services.
func TestEachRoleIsKnownByItsTarget(t *testing.T) {
	for _, r := range services.Ours().Roles() {
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			require.Equal(t, r.Target, Target(name), name)
		}
	}
	require.Equal(t, "valkey.target", Target("valkey"))
}

// TestTheStatusLineHasWhatIsRead compares Status with the line that it is read from.
func TestTheStatusLineHasWhatIsRead(t *testing.T) {
	same(t, "", reflect.TypeFor[Status](), reflect.TypeFor[status.Line]())
}

func same(t *testing.T, path string, ours, theirs reflect.Type) {
	for ours.Kind() == reflect.Pointer || ours.Kind() == reflect.Slice {
		ours = ours.Elem()
	}
	for theirs.Kind() == reflect.Pointer || theirs.Kind() == reflect.Slice && theirs.Elem().Kind() != reflect.Uint8 {
		theirs = theirs.Elem()
	}
	if ours.Kind() != reflect.Struct || theirs.Kind() != reflect.Struct || ours == reflect.TypeFor[time.Time]() {
		return
	}
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(theirs) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f
	}
	for _, f := range reflect.VisibleFields(ours) {
		name := f.Tag.Get("json")
		require.Contains(t, fields, name, path)
		same(t, path+"."+name, f.Type, fields[name].Type)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, 80, 3)
	}
	f.Fuzz(func(t *testing.T, s string, width, lines int) {
		width, lines = max(width%500, 0), 1+max(lines%20, 0)
		clean := Clean(s)
		for _, c := range []byte(clean) {
			require.True(t, c >= ' ' && c < 0x7f)
		}
		parts := wrap(clean, width, lines)
		require.LessOrEqual(t, len(parts), lines)
		for _, p := range parts {
			require.LessOrEqual(t, len(p), max(width, 4))
		}
	})
}

// The plain page that was there before says so, too.
func TestWhatAHypervisorSaidInVainIsShown(t *testing.T) {
	m := &Model{Status: &Status{Node: "edge-01", NoCloud: &NoCloud{NotTaken: []string{"user-data: packages"},
		Problem: "two volumes CIDATA"}}}
	g, _ := m.Render(View{Page: StatusPage, Small: true}, 80, 24)
	require.Contains(t, g.String(), "nocloud     two volumes CIDATA")
	require.Contains(t, g.String(), "not taken   user-data: packages")
	m.Status.Problem = "this machine does not match any node: two volumes CIDATA"
	g, _ = m.Render(View{Page: StatusPage, Small: true}, 80, 24)
	require.NotContains(t, g.String(), "nocloud ")
}
