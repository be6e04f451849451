package trail

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// others are nodes that keep what is sent to them, as long as they are up.
type others struct {
	mu   sync.Mutex
	up   map[string]bool
	kept map[string]string
}

func (o *others) send(_ context.Context, node string, lines []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.up[node] {
		return errors.New("no answer")
	}
	o.kept[node] += string(lines)
	return nil
}

func (o *others) set(node string, up bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up[node] = up
}

func (o *others) lines(node string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.kept[node], "\n")
}

func starts(t *testing.T, dir string, o *others) (k *Keeper, end func()) {
	t.Helper()
	k = &Keeper{
		Dir: dir, Node: "a", Others: []string{"b", "c"}, Send: o.send, Say: func(s string) { t.Log(s) }, Now: time.Now,
		Random: rand.Reader,
	}
	require.NoError(t, k.Open())
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	end = func() { stop(); <-done }
	t.Cleanup(end)
	return k, end
}

func keeper(t *testing.T, dir string, o *others) *Keeper {
	t.Helper()
	k, _ := starts(t, dir, o)
	return k
}

func newOthers() *others { return &others{up: map[string]bool{}, kept: map[string]string{}} }

func call() nodeapi.TrailRecord {
	return nodeapi.TrailRecord{
		Call: "reboot", User: "anna", Serial: "4f", Role: nodeapi.Operator, From: "10.0.0.1:5",
		Arguments: map[string]string{"wait": "10s"},
	}
}

// kept are the records of a keeper, each as node, call, stage and result.
func kept(t *testing.T, k *Keeper) (out []string) {
	t.Helper()
	require.NoError(t, k.Records(time.Time{}, func(r nodeapi.TrailRecord) error {
		out = append(out, strings.TrimSpace(fmt.Sprintln(r.Node, r.Call, r.Stage, r.Result)))
		return nil
	}))
	return out
}

func TestACallIsOnTwoNodesBeforeItIsCarriedOut(t *testing.T) {
	o := newOthers()
	o.set("b", true)
	k := keeper(t, t.TempDir(), o)
	end := k.Begin(t.Context(), call())
	require.Equal(t, []string{"a reboot begun"}, kept(t, k))
	require.Equal(t, 1, o.lines("b"))
	end(nodeapi.Did, "restarts now")
	require.Equal(t, []string{"a reboot begun", "a reboot done restarts now"}, kept(t, k))
	require.Eventually(t, func() bool { return o.lines("b") == 2 }, 10*time.Second, time.Millisecond)
	require.Zero(t, o.lines("c"), "one other node is enough")
}

func TestTheNextNodeThatAnswersKeepsIt(t *testing.T) {
	o := newOthers()
	o.set("c", true)
	k := keeper(t, t.TempDir(), o)
	k.Begin(t.Context(), call())(nodeapi.Erred, "no")
	require.Eventually(t, func() bool { return o.lines("c") == 2 }, 10*time.Second, time.Millisecond)
}

func TestWhatNobodyHasIsSentLaterAndOnce(t *testing.T) {
	o, dir := newOthers(), t.TempDir()
	k, end := starts(t, dir, o)
	begun := time.Now()
	k.Begin(t.Context(), call())(nodeapi.Did, "1")
	require.Less(t, time.Since(begun), 2*deliverBound)
	begun = time.Now()
	k.Begin(t.Context(), call())(nodeapi.Did, "2")
	require.Less(t, time.Since(begun), deliverBound, "nobody waits for nodes that are known to be off")

	end()
	o.set("b", true)
	again, end := starts(t, dir, o) // The node was restarted.
	require.Eventually(t, func() bool { return o.lines("b") == 4 }, 10*time.Second, time.Millisecond)
	require.Len(t, kept(t, again), 4)
	end()
	third := keeper(t, dir, o)
	require.Empty(t, third.pending, "it is known what was sent")
	third.Begin(t.Context(), call())(nodeapi.Did, "3")
	require.Eventually(t, func() bool { return o.lines("b") == 6 }, 10*time.Second, time.Millisecond)
}

func TestWhoseRecordsTheyAreSaysTheCertificate(t *testing.T) {
	k := keeper(t, t.TempDir(), newOthers())
	r := call()
	r.ID, r.Stage, r.Time, r.Node = strings.Repeat("0", 32), nodeapi.Begun, time.Now(), "a"
	line, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, k.Take("b", bytes.NewReader(append(line, '\n'))))
	require.Equal(t, []string{"b reboot begun"}, kept(t, k))
	require.NoError(t, k.Take("../../own", bytes.NewReader(append(line, '\n'))), "no name leads out of the directory")
	require.DirExists(t, filepath.Join(k.Dir, othersDir, "own"))
	require.NoDirExists(t, filepath.Join(k.Dir, ownDir))

	for name, text := range map[string]string{
		"nothing": "", "text": "hello\n", "one of two": string(line) + "\n{\n",
		"one that is far too long": strings.Repeat("x", nodeapi.MaxTrailRecord+1) + "\n",
	} {
		require.Error(t, k.Take("c", strings.NewReader(text)), name)
	}
	require.NoDirExists(t, filepath.Join(k.Dir, othersDir, "c"))
}

func TestRecordsAreBounded(t *testing.T) {
	l := newLog(t.TempDir())
	l.most = 100
	line := []byte(strings.Repeat("x", 39) + "\n")
	for i := range 10 {
		line[0] = byte('0' + i)
		require.NoError(t, l.add(line))
	}
	all, err := l.read()
	require.NoError(t, err)
	require.Len(t, all, 160)
	require.Equal(t, byte('6'), all[0], "the oldest are given up")
	require.Equal(t, byte('9'), all[120])
	entries, err := os.ReadDir(l.dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

func TestALineThatWasCutOffCostsNoOther(t *testing.T) {
	o, dir := newOthers(), t.TempDir()
	k := keeper(t, dir, o)
	k.Others = nil
	k.Begin(t.Context(), call())
	file := filepath.Join(dir, ownDir, currentFile)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(data, data[:50]...), 0o600))
	k.Begin(t.Context(), call())
	require.Equal(t, []string{"a reboot begun", "a reboot begun"}, kept(t, k))
}

func TestAFullDiskStopsNobodyAndIsSaid(t *testing.T) {
	o := newOthers()
	o.set("b", true)
	dir := t.TempDir()
	k := keeper(t, dir, o)
	var said []string
	k.Say = func(s string) { said = append(said, s) }
	require.NoError(t, os.WriteFile(filepath.Join(dir, ownDir), nil, 0o600))
	k.Begin(t.Context(), call())
	require.Contains(t, strings.Join(said, "\n"), "keep a record of the call")
	require.Equal(t, 1, o.lines("b"), "another node has it all the same")
}
