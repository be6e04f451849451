package network

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/machine"
)

func TestArgumentsAreANodeAndAProbe(t *testing.T) {
	for line, want := range map[string]wanted{
		"edge-01":                     {dir: "configs", node: "edge-01"},
		"plant edge-01":               {dir: "plant", node: "edge-01"},
		"edge-01 ping 10.0.0.1":       {dir: "configs", node: "edge-01", kind: "ping", target: "10.0.0.1"},
		"plant edge-01 tcp host:9093": {dir: "plant", node: "edge-01", kind: "tcp", target: "host:9093"},
		"ping dns a.example":          {dir: "configs", node: "ping", kind: "dns", target: "a.example"},
	} {
		var w wanted
		require.NoError(t, w.read(strings.Fields(line)), line)
		require.Equal(t, want, w)
	}
	for line, want := range map[string]string{
		"edge-01 ping":            "say what to probe by ping",
		"edge-01 smtp host":       `"smtp" is not a probe; choose one of ping, dns, tcp`,
		"plant edge-01 ping":      `"edge-01" is not a probe`,
		"plant edge-01 smtp host": `"smtp" is not a probe`,
	} {
		var w wanted
		require.ErrorContains(t, w.read(strings.Fields(line)), want, line)
	}
	require.ErrorContains(t, (&wanted{server: "10.0.0.1"}).read([]string{"edge-01"}), "--server is for dns")
}

func TestAProbeIsALine(t *testing.T) {
	var out strings.Builder
	require.NoError(t, showProbe(&out, machine.Probe{Number: 1, To: "10.0.0.1", Milliseconds: 1.5, Answer: "64 bytes"}))
	require.NoError(t, showProbe(&out, machine.Probe{Number: 2, To: "10.0.0.1", Problem: "no answer within 2s"}))
	require.Equal(t, "1  10.0.0.1  1.50 ms: 64 bytes\n2  10.0.0.1  no answer within 2s\n", out.String())
}
