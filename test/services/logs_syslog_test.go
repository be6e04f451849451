//go:build e2e

package services

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/giving"
	"spore/agent/logs/spool"
	"spore/agent/syslog"
	"spore/services/logs/store"
	"spore/test/testca"
)

// rsyslogPackages are Debian's rsyslog, TLS for it, and the libraries that nothing else has.
var rsyslogPackages = []string{"rsyslog", "rsyslog-gnutls", "libestr0", "libfastjson4", "liblognorm5"}

// rsyslog is Debian's, in a folder of its own: its package would start it as the machine's own server.
type rsyslog struct {
	t    *testing.T
	dir  string
	port int
	ca   *testca.CA
	cmd  *exec.Cmd
	log  bytes.Buffer
}

func newRsyslog(t *testing.T) *rsyslog {
	t.Helper()
	r := &rsyslog{t: t, dir: t.TempDir()}
	fetch := exec.Command("apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, rsyslogPackages...)...)
	fetch.Dir = r.dir
	out, err := fetch.CombinedOutput()
	require.NoError(t, err, "%s", out)
	packages, err := filepath.Glob(filepath.Join(r.dir, "*.deb"))
	require.NoError(t, err)
	require.Len(t, packages, len(rsyslogPackages))
	for _, p := range packages {
		out, err := exec.Command("dpkg-deb", "-x", p, filepath.Join(r.dir, "root")).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.port = l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	r.ca, err = testca.New("plant")
	require.NoError(t, err)
	certificate, key, err := r.ca.Server("127.0.0.1")
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"ca.pem": r.ca.PEM(), "server.pem": certificate, "server.key": key, "rsyslog.conf": []byte(r.settings()),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), data, 0o600))
	}
	t.Cleanup(r.kill)
	return r
}

// settings are those of docs/logs.md, and a format that shows every part of a message.
func (r *rsyslog) settings() string {
	page, err := os.ReadFile("../../docs/logs.md")
	require.NoError(r.t, err)
	_, settings, found := strings.Cut(string(page), "```\nglobal(\n")
	require.True(r.t, found)
	settings, _, found = strings.Cut(settings, "```")
	require.True(r.t, found)
	for of, here := range map[string]string{
		"/etc/rsyslog/": r.dir + "/", `port="6514"`: fmt.Sprintf(`address="127.0.0.1" port="%d"`, r.port),
	} {
		require.Contains(r.t, settings, of)
		settings = strings.ReplaceAll(settings, of, here)
	}
	return fmt.Sprintf(`global(
workDirectory=%q
%s
template(name="all" type="string" string="%%pri%%|%%hostname%%|%%app-name%%|%%procid%%|%%structured-data%%|%%msg%%\n")
action(type="omfile" file=%q template="all")
`, r.dir, settings, r.file())
}

func (r *rsyslog) file() string { return filepath.Join(r.dir, "taken.log") }

func (r *rsyslog) start() {
	r.t.Helper()
	libraries := filepath.Join(r.dir, "root/usr/lib/x86_64-linux-gnu")
	r.cmd = exec.Command(filepath.Join(r.dir, "root/usr/sbin/rsyslogd"), "-n", "-f", filepath.Join(r.dir, "rsyslog.conf"),
		"-i", filepath.Join(r.dir, "pid"), "-M", filepath.Join(libraries, "rsyslog"))
	r.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(r.t, os.RemoveAll(filepath.Join(r.dir, "pid")))
	require.NoError(r.t, r.cmd.Start())
	require.Eventually(r.t, func() bool {
		c, err := tls.Dial("tcp", r.address(), &tls.Config{RootCAs: r.ca.Pool()})
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 20*time.Second, 20*time.Millisecond, "rsyslogd does not listen")
}

func (r *rsyslog) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

func (r *rsyslog) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // an error means that it has ended
	_ = r.cmd.Wait()         // always "killed"
	r.cmd = nil
	if r.t.Failed() {
		r.t.Log(r.log.String())
	}
}

// lines are what it has taken.
func (r *rsyslog) lines() []string {
	data, _ := os.ReadFile(r.file())
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// times counts how often each entry has arrived, and returns what is none of them.
func (r *rsyslog) times() (map[int]int, []string) {
	got, others := map[int]int{}, []string(nil)
	for _, l := range r.lines() {
		_, rest, found := strings.Cut(l, "|entry-")
		number, _, ends := strings.Cut(rest, ".")
		n, err := strconv.Atoi(number)
		if !found || !ends || err != nil {
			others = append(others, l)
			continue
		}
		got[n]++
	}
	return got, others
}

// hostile are texts that try to be more than one message, or none.
var hostile = []string{
	"", "\n", "\x00\x00", "a\nb\r\nc", "\x1b[2J\x1b]0;title\a", "\u202e\u2066abc", "]", `"] [x@1 a="b"] `, `\`, "\ufeff", "日本語 ü €",
	"\n<34>1 2026-01-02T03:04:05Z evil app - - - injected", "12 <34>1 - - - -", strings.Repeat("x", 7000),
	strings.Repeat("ü\n", 30_000), "%msg% %$!all-json% $(reboot)", "\u0085\u2028\u2029", "9999999999 ",
}

// entriesOf are lines of the store's queue.
func entriesOf(t *testing.T, from, to int) []byte {
	t.Helper()
	var out []byte
	for i := from; i < to; i++ {
		text := hostile[i%len(hostile)]
		line, err := json.Marshal(map[string]string{
			"_time": time.Now().UTC().Format(time.RFC3339Nano), "_msg": fmt.Sprintf("entry-%d.%s", i, text),
			"cluster": "plant", "node": "edge-01", "role": "worker", "_SPORE_SOURCE": "journal", "PRIORITY": strconv.Itoa(i % 8),
			"_SYSTEMD_UNIT": text + "x.service", "SYSLOG_IDENTIFIER": text, "_PID": text, "__CURSOR": fmt.Sprintf("s=a;i=%x", i),
		})
		require.NoError(t, err)
		out = append(append(out, line...), '\n')
	}
	return out
}

// givingTo has a store's queue that is given to rsyslog until the test ends.
func givingTo(t *testing.T, r *rsyslog) (*spool.Spool, *giving.Giving) {
	t.Helper()
	to := []store.Receiver{{Name: "plant", Sources: []string{"journal"}, Least: 7, Syslog: &store.Syslog{
		Address: r.address(), Transport: "tls", CA: string(r.ca.PEM()),
	}}}
	say := func(s string) { t.Log(s) }
	dir := t.TempDir()
	s, err := spool.Open(spool.Options{
		Dir: filepath.Join(dir, "spool"), Bound: 256 << 20, Consumers: []spool.Consumer{{Name: giving.Consumer("plant")}},
		Say: say, Now: time.Now,
	})
	require.NoError(t, err)
	reader, err := s.Reader(giving.Consumer("plant"))
	require.NoError(t, err)
	g := giving.New(giving.Options{Receivers: to, Dir: dir, Now: time.Now, Say: say})
	run := g.Begin(to[0], reader)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-over, context.Canceled)
		require.NoError(t, reader.Close())
		require.NoError(t, s.Close())
	})
	return s, g
}

func TestRsyslogTakesHostileEntriesOnce(t *testing.T) {
	r := newRsyslog(t)
	r.start()
	s, g := givingTo(t, r)
	for i := range 10 {
		require.NoError(t, s.Append(t.Context(), entriesOf(t, 100*i, 100*i+100)))
	}
	require.Eventually(t, func() bool { return strings.Contains(string(g.Metrics()), `given_total{receiver="plant"} 1000`) },
		time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool { return len(r.lines()) >= 1000 }, 10*time.Second, 50*time.Millisecond)
	time.Sleep(500 * time.Millisecond)
	got, others := r.times()
	require.Empty(t, others)
	require.Len(t, got, 1000)
	for i, l := range r.lines() {
		require.Equal(t, 1, got[i], i)
		require.True(t, strings.HasPrefix(l, fmt.Sprintf("%d|edge-01|", 3*8+i%8)), l)
		require.Contains(t, l, `|[spore@32473 cluster="plant" node="edge-01" source="journal" `, l)
		require.Contains(t, l, fmt.Sprintf(`cursor="s=a;i=%x"]|entry-%d.`, i, i), l)
		require.LessOrEqual(t, len(l), syslog.MaxStream)
		for _, r := range l {
			require.False(t, r < ' ' || r == '\u202e', "%q", l)
		}
	}
	for i, want := range map[int]string{3: "a#012b#015#012c", 7: `"] [x@1 a="b"] `, 10: "日本語 ü €", 12: "12 <34>1 - - - -", 13: hostile[13]} {
		require.True(t, strings.HasSuffix(r.lines()[i], fmt.Sprintf("|entry-%d.%s", i, want)), r.lines()[i])
	}
}

func TestRsyslogThatIsKilledMissesNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	r := newRsyslog(t)
	r.start()
	s, _ := givingTo(t, r)
	const most = 6000
	for i := 0; i < most; i += 100 {
		require.NoError(t, s.Append(t.Context(), entriesOf(t, i, i+100)))
		time.Sleep(time.Duration(chance.IntN(60)) * time.Millisecond)
		if chance.IntN(10) == 0 {
			r.kill()
			time.Sleep(time.Duration(chance.IntN(500)) * time.Millisecond)
			r.start()
		}
	}
	missing := func() (n int) {
		got, _ := r.times()
		for i := range most {
			if got[i] == 0 {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return missing() == 0 }, time.Minute, 200*time.Millisecond, "entries are missing")
	t.Logf("%d entries arrived as %d", most, len(r.lines()))
}
