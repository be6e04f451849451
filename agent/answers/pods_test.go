package answers

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/netnstest"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/verbs"
	"spore/agent/verbs/podlogs"
	"spore/pki"
	"spore/wire/nodeapi"
)

// looks is spore-look.socket with the verb that reads the files of pods.
func looks(t *testing.T, m *node.Machine) {
	t.Helper()
	socket := m.Root.At(verbs.Socket(nodeapi.Looks))
	require.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = verbs.Serve(context.Background(), m, nodeapi.Looks, map[string]verbs.Handler{nodeapi.PodLogs: podlogs.Show}, conn, conn)
			}()
		}
	}()
}

// writes adds lines to a file of a container; each has its own second.
func writes(t *testing.T, m *node.Machine, file string, from int, lines ...string) {
	t.Helper()
	path := m.Root.At("/var/log/pods/" + file)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	var b bytes.Buffer
	for i, l := range lines {
		fmt.Fprintf(&b, "%s %s\n", time.Date(2026, 11, 26, 12, 0, from+i, 0, time.UTC).Format(time.RFC3339Nano), l)
	}
	data := b.Bytes()
	if strings.HasSuffix(file, ".gz") {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, err := w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		data = zipped.Bytes()
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestANodeAnswersWithTheLinesOfAPod(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		netnstest.Address(t, "lo", "10.77.0.11/32")
		machines, c, tree := nodetest.BrokersWithKeys(t, "10.77.0.11")
		m := machines["kafka-1"]
		m.Say = func(s string) { t.Log(s) }
		defer nodetest.Serve(t, m, Serve)()
		const web = "default_web-1_0f6d3c52-9a6e-4f8f-9f0e-2f6b3f3a8a11/"

		who := operator(t, c, tree, pki.NodeOperator)
		ask := func(who *nodeapi.Client, q nodeapi.Logs, each func(nodeapi.Entry)) error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var data []byte
			var err error
			require.Eventually(t, func() bool {
				data, err = who.Read(ctx, "kafka-1", nodeapi.Request{Path: nodeapi.LogsPath, Query: q.Values()}, 8<<20)
				_, refused := err.(nodeapi.Refusal)
				return err == nil || refused
			}, 20*time.Second, 20*time.Millisecond, "it listens")
			if err != nil {
				return err
			}
			return nodeapi.ReadEntries(bytes.NewReader(data), func(_ []byte, e nodeapi.Entry) error { each(e); return nil })
		}
		lines := func(q nodeapi.Logs) (out []string) {
			t.Helper()
			require.NoError(t, ask(who, q, func(e nodeapi.Entry) { out = append(out, e.Identifier+" "+e.Message) }))
			return out
		}
		pod := nodeapi.Logs{Pod: "default/web-1", Lines: 100}
		require.ErrorContains(t, ask(who, pod, nil), "what reads the files of pods does not run")
		looks(t, m)
		require.Empty(t, lines(pod), "a node without pods")

		writes(t, m, web+"nginx/0.log.20261126-120001.gz", 0, "stdout F first", "stdout F second")
		writes(t, m, web+"nginx/0.log.20261126-120003", 2, "stdout F third")
		writes(t, m, web+"nginx/0.log", 3, "stdout P fo", "stdout F urth \x1b[2J")
		writes(t, m, web+"nginx/1.log", 7, "stderr F \xff\xfe")
		writes(t, m, web+"side/0.log", 5, "stdout F of the other")
		writes(t, m, "default_web-10_1/nginx/0.log", 0, "stdout F not asked for")
		writes(t, m, "other_web-1_1/nginx/0.log", 0, "stdout F not asked for")
		outside := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(outside, []byte("2026-11-26T12:00:00Z stdout F outside\n"), 0o600))
		require.NoError(t, os.Symlink(outside, m.Root.At("/var/log/pods/"+web+"nginx/2.log")))

		all := []string{
			"web-1/nginx first", "web-1/nginx second", "web-1/nginx third", "web-1/nginx fourth \x1b[2J", "web-1/side of the other", "web-1/nginx \xff\xfe",
		}
		require.Equal(t, all, lines(pod))
		for name, tc := range map[string]struct {
			change func(*nodeapi.Logs)
			want   []string
		}{
			"the last":           {func(q *nodeapi.Logs) { q.Lines = 2 }, all[4:]},
			"none":               {func(q *nodeapi.Logs) { q.Lines = 0 }, nil},
			"a container":        {func(q *nodeapi.Logs) { q.Pod += "/side" }, all[4:5]},
			"no such container":  {func(q *nodeapi.Logs) { q.Pod += "/sid" }, nil},
			"no such pod":        {func(q *nodeapi.Logs) { q.Pod = "default/web" }, nil},
			"an expression":      {func(q *nodeapi.Logs) { q.Grep, q.Lines = "^(first|third)$", 1 }, all[2:3]},
			"since":              {func(q *nodeapi.Logs) { q.Since = time.Date(2026, 11, 26, 12, 0, 3, 0, time.UTC) }, all[3:]},
			"until, which is in": {func(q *nodeapi.Logs) { q.Until = time.Date(2026, 11, 26, 12, 0, 1, 0, time.UTC) }, all[:2]},
		} {
			q := pod
			tc.change(&q)
			require.Equal(t, tc.want, lines(q), name)
		}
		q := pod
		q.Lines, q.Priority = 1, "3"
		require.Equal(t, []string{" (lines of pods have no priority; all are shown)", all[5]}, lines(q))

		reader := operator(t, c, tree, pki.NodeReader)
		require.ErrorContains(t, ask(reader, pod, nil), "the logs of pods are not for this certificate: cluster.yaml (logRights.pods) lets operator read them")

		// One that follows gets what comes, over a rotation, and of a container that starts.
		ctx, leave := context.WithTimeout(t.Context(), 40*time.Second)
		defer leave()
		q = pod
		q.Follow, q.Lines = true, 1
		res, err := who.Ask(ctx, "kafka-1", nodeapi.Request{Path: nodeapi.LogsPath, Query: q.Values()})
		require.NoError(t, err)
		defer res.Close()
		got := make(chan string, 100)
		go func() {
			_ = nodeapi.ReadEntries(res, func(_ []byte, e nodeapi.Entry) error { got <- e.Message; return nil })
			close(got)
		}()
		require.Equal(t, "\xff\xfe", <-got)
		writes(t, m, web+"nginx/1.log", 10, "stdout F new")
		require.Equal(t, "new", <-got)
		require.NoError(t, os.Rename(m.Root.At("/var/log/pods/"+web+"nginx/1.log"), m.Root.At("/var/log/pods/"+web+"nginx/1.log.20261126-120010")))
		writes(t, m, web+"nginx/1.log", 11, "stdout F behind the rotation")
		require.Equal(t, "behind the rotation", <-got)
		writes(t, m, web+"third/0.log", 12, "stdout F it starts")
		require.Equal(t, "it starts", <-got)
	})
}
