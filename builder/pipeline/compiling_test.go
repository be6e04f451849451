package pipeline

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/payload"
	"spore/builder/progress"
)

func TestALogSaysWhatIsCompiledAndWhatIsLeft(t *testing.T) {
	jar := payload.Program{Name: "kafka/a.jar", Payload: "kafka", Artifact: &payload.Artifact{}, Sum: &payload.Sum{Size: 4 << 20}}
	second := jar
	second.Name = "kafka/b.jar"
	planned := binaries{
		agent:  payload.Program{Name: "spore-agent"},
		stage1: payload.Program{Name: "init", Cached: true},
		payloads: []payload.Program{
			{Name: "etcd", Sum: &payload.Sum{Size: 12 << 20}},
			{Name: "kube", Cached: true},
			jar, second,
		},
	}
	plans := 0
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	c := compiling{plan: func() (binaries, error) { plans++; return planned, nil }}
	c.step = progress.New(&out, func() time.Time { clock = clock.Add(time.Minute); return clock }).Step("programs")
	for _, p := range []payload.Progress{
		{Program: "spore-agent", Now: "starting"},
		{Program: "etcd", Done: 30, Total: 120, Now: "go.etcd.io/raft/v3"},
		{Program: "kafka", Now: "Maven looks for its jars"},
	} {
		c.report(p)
	}
	require.Equal(t, 1, plans)
	require.Equal(t, `programs … 1 of 3: spore-agent, starting; left: etcd, kafka
programs … 2 of 3: etcd, 30 of 120 packages, go.etcd.io/raft/v3; left: kafka
programs … 3 of 3: kafka, Maven looks for its jars
`, out.String())

	_, done := describeMaking(c.todo, payload.Progress{Program: "etcd", Done: 30, Total: 120})
	require.InDelta(t, 23.0/40, done, 1e-9, "20 MiB and a quarter of 12, of 40")
	_, done = describeMaking(c.todo, payload.Progress{Program: "kafka"})
	require.InDelta(t, 32.0/40, done, 1e-9)
}

func TestWhereNothingCanBePlannedTheProgramIsNamed(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	c := compiling{plan: func() (binaries, error) { return binaries{}, errors.New("no") }}
	c.step = progress.New(&out, func() time.Time { clock = clock.Add(time.Minute); return clock }).Step("programs")
	c.report(payload.Progress{Program: "etcd", Now: "starting"})
	require.Equal(t, "programs … 1 of 1: etcd, starting\n", out.String())
}

func TestFilesOfAnArchiveAreMadeAtOnce(t *testing.T) {
	file := payload.Program{Name: "programs/tool/usr/bin/a", Payload: "programs/tool", Unpacked: "x"}
	second := file
	second.Name = "programs/tool/usr/bin/b"
	todo := missing(binaries{
		agent: payload.Program{Name: "spore-agent", Cached: true}, stage1: payload.Program{Name: "init", Cached: true},
		payloads: []payload.Program{{Name: "programs/gateway"}, file, second},
	})
	text, _ := describeMaking(todo, payload.Progress{Program: "programs/tool", Now: "fetching tool.tar.gz, 3 MiB of 12"})
	require.Equal(t, "2 of 2: programs/tool, fetching tool.tar.gz, 3 MiB of 12", text)
}
