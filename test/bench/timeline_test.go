package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

const bootConsole = `BdsDxe: starting Boot0001
[    0.000000] Linux version 6.12
[    1.500000] spore stage1: [  1.500] modules
[    2.250000] spore stage1: [  2.250] switching to the root
[    3.000000] systemd[1]: systemd 257.13 running in system mode
[    3.100000] systemd[1]: Created slice system-getty.slice - Slice.
[    3.200000] systemd[1]: Listening on dbus.socket - Bus.
[    3.500000] systemd[1]: Starting b.service - Second...
[    3.400000] systemd[1]: Starting a@x\x2d1.service - First...
[    4.000000] systemd[1]: Finished b.service - Second.
[    4.100000] systemd[1]: Mounting var.mount - /var...
[    4.300000] systemd[1]: Mounted var.mount - /var.
[    4.400000] systemd[1]: Reached target basic.target - Basic System.
[    4.450000] agent[9]: agent: begun[    4.500000] systemd[1]: Started simple.service - Simple.[    4.550000] systemd[1]: Started next.service - Next.
[    5.000000] systemd[1]: Started a@x\x2d1.service - First.
[    9.000000] systemd[1]: Starting b.service - Second...
[    9.500000] systemd[1]: Finished b.service - Second.
[    9.600000] b[77]: Starting c.service - of somebody who imitates it
`

func TestTimeline(t *testing.T) {
	require.Equal(t, []Span{
		{"kernel", 0, 1.5}, {"stage1", 1.5, 2.25}, {"systemd", 2.25, 3.4},
		{`a@x\x2d1.service`, 3.4, 5}, {"b.service", 3.5, 4}, {"var.mount", 4.1, 4.3}, {"basic.target", 4.4, 4.4}, {"simple.service", 4.5, 4.5}, {"next.service", 4.55, 4.55},
	}, timeline(bootConsole))
	require.Empty(t, timeline("no boot at all\n"))
}

// wellFormed fails for what no XML parser reads.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else {
			require.NoError(t, err)
		}
	}
}

func TestPicturesAreXMLWithEverythingInThem(t *testing.T) {
	spans := append(timeline(bootConsole), Span{"<&>", 1, 2})
	got := bootChart(spans, "a & b")
	wellFormed(t, got)
	require.Equal(t, len(spans), strings.Count(got, "<rect"))
	require.Contains(t, got, `text-anchor="end">var.mount</text>`)
	require.Equal(t, got, bootChart(spans, "a & b"))

	curve := scaleChart([]Scale{
		{Nodes: 10, Validate: *seconds2(0.01, 0), Build: *seconds2(0.2, 0), Explain: *seconds2(0.01, 0), Detect: 50 * time.Microsecond},
		{Nodes: 1000, Validate: *seconds2(0.1, 0), Build: *seconds2(0.3, 0), Explain: *seconds2(0.1, 0), Detect: 60 * time.Microsecond},
	})
	wellFormed(t, curve)
	require.Equal(t, 4, strings.Count(curve, "<polyline"))
	require.NotContains(t, curve, "NaN")
	require.NotContains(t, curve, "Inf")
	wellFormed(t, scaleChart([]Scale{{Nodes: 10}}))
}

func TestRolesAreActiveWhenEveryProgramOfTheirsIs(t *testing.T) {
	status := func(text string) vm.Status {
		s, ok := vm.ParseStatus(`{"spore":1,` + text + `}`)
		require.True(t, ok)
		return s
	}
	const dns = `"coredns.service":"active","dns.target":"active"`
	const all = dns + `,"mosquitto.service":"active","mqtt.target":"active"`
	require.True(t, active(status(`"roles":["dns-server","mqtt-broker"],"services":{`+all+`,"spore-api.service":"inactive"}`)), "no role waits for the API")
	for name, text := range map[string]string{
		"no roles yet":        `"services":{}`,
		"nothing is said yet": `"roles":["dns-server"]`,
		"one starts still":    `"roles":["dns-server","mqtt-broker"],"services":{` + dns + `,"mosquitto.service":"activating"}`,
		"one is held":         `"roles":["dns-server"],"held":[{"role":"mqtt-broker"}],"services":{` + all + `}`,
		"one has failed":      `"roles":["dns-server"],"failed":["mosquitto.service"],"services":{` + all + `}`,
	} {
		require.False(t, active(status(text)), name)
	}
}

func TestMkosiIsToldOurPackages(t *testing.T) {
	plain, more := mkosiConf([]string{"udev", "mosquitto"}, false), mkosiConf([]string{"udev", "mosquitto"}, true)
	require.Contains(t, plain, "Packages=\n    udev\n    mosquitto\n    systemd-boot\nWithDocs=no")
	require.Contains(t, more, "    systemd-boot\n    strace\nWithDocs=no")
}
