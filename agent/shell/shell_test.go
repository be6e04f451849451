package shell

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/shell/kept"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

var (
	begun       = time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	signer      = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	stranger    = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	fingerprint = strings.Repeat("c1", 32)
	terminal    = &shell.Terminal{Kind: "vt100", Size: shell.Size{Rows: 24, Columns: 80}}
)

// bench is a node on which shells are opened.
type bench struct {
	t *testing.T
	m *node.Machine
	s Server

	// slow is how long a record takes.
	slow time.Duration

	mu       sync.Mutex
	records  [][]Field
	noRecord error
}

func newBench(t *testing.T) *bench {
	m, _ := nodetest.New(t, 2)
	nodetest.Is(t, m, "node-00000")
	m.Now = func() time.Time { return begun.Add(time.Minute) }
	keys := m.Root.At(shell.KeysPath)
	require.NoError(t, os.MkdirAll(filepath.Dir(keys), 0o755))
	require.NoError(t, os.WriteFile(keys, []byte(shell.EncodeKey(signer.Public().(ed25519.PublicKey))+"\n"), 0o644))
	b := &bench{t: t, m: m}
	b.s = Server{Machine: m, Send: b.send, Command: func(bool) *exec.Cmd {
		cmd := exec.Command("/bin/sh")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PS1=$ "}
		return cmd
	}}
	return b
}

func (b *bench) send(f []Field) error {
	time.Sleep(b.slow)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noRecord != nil {
		return b.noRecord
	}
	b.records = append(b.records, f)
	return nil
}

// recorded is what is in the journal of a stream.
func (b *bench) recorded(stream string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out bytes.Buffer
	for _, r := range b.records {
		fields := map[string]string{}
		for _, f := range r {
			fields[f.Name] = f.Value
		}
		if fields[shell.StreamField] != stream {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(fields[shell.DataField])
		require.NoError(b.t, err)
		out.Write(data)
		if stream == shell.StreamBegin || stream == shell.StreamEnd {
			out.WriteString(fields["MESSAGE"])
		}
	}
	return out.String()
}

func grant() shell.Grant {
	return shell.Grant{
		Cluster: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Node: "node-00000", ID: strings.Repeat("0a", 16),
		Issued: begun, Until: begun.Add(time.Hour), Minutes: 60, Certificate: fingerprint, Reason: "a test",
	}
}

func signed(t *testing.T, g shell.Grant, key ed25519.PrivateKey) []byte {
	data, err := shell.Sign(g, key)
	require.NoError(t, err)
	return data
}

func callWith(data []byte) Call {
	return Call{
		Grant: data, Caller: "anna", Serial: "4f", Fingerprint: fingerprint, Roles: nodeapi.Owners(), From: "10.0.0.9:5000",
	}
}

// client is the other side of a call.
type client struct {
	t    *testing.T
	conn *net.UnixConn
	in   *bufio.Reader
	done chan error
	stop context.CancelFunc
}

func pair(t *testing.T) (here, there *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var out []*net.UnixConn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		t.Cleanup(func() { _ = c.Close() })
		out = append(out, c.(*net.UnixConn))
	}
	return out[0], out[1]
}

// call sends a line, and returns what the node answers.
func (b *bench) call(line []byte) (*client, string) {
	here, there := pair(b.t)
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	c := &client{t: b.t, conn: here, in: bufio.NewReader(here), done: make(chan error, 1), stop: cancel}
	go func() { c.done <- b.s.Serve(ctx, there) }()
	_, err := here.Write(line)
	require.NoError(b.t, err)
	answer, err := c.in.ReadBytes('\n')
	require.NoError(b.t, err)
	var a Answer
	require.NoError(b.t, json.Unmarshal(answer, &a))
	return c, a.Error
}

func (b *bench) open(call Call) (*client, string) {
	line, err := json.Marshal(call)
	require.NoError(b.t, err)
	return b.call(append(line, '\n'))
}

func (c *client) send(kind shell.Kind, data string) {
	require.NoError(c.t, shell.WriteFrame(c.conn, kind, []byte(data)))
}

// end reads to the end of the session.
func (c *client) end() (shown string, o shell.Outcome) {
	var out bytes.Buffer
	for {
		kind, data, err := shell.ReadFrame(c.in)
		require.NoError(c.t, err)
		switch kind {
		case shell.Output:
			out.Write(data)
		case shell.Exit:
			o, err := shell.ParseOutcome(data)
			require.NoError(c.t, err)
			require.NoError(c.t, <-c.done)
			return out.String(), o
		}
	}
}

func (b *bench) session(id string) shell.Session {
	all, err := kept.In(b.m.Root).Sessions()
	require.NoError(b.t, err)
	for _, s := range all {
		if s.ID == id {
			return s
		}
	}
	b.t.Fatal("it is not kept")
	return shell.Session{}
}

func TestAShellOnAPipeDoesWhatItReadsAndIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	data := signed(t, grant(), signer)
	c, refused := b.open(callWith(data))
	require.Empty(t, refused)
	c.send(shell.Alive, "")
	c.send(shell.Input, "echo out; echo err >&2; exit 7\n")
	c.send(shell.End, "")
	shown, o := c.end()
	require.Equal(t, "out\nerr\n", shown)
	require.Equal(t, shell.Outcome{Status: 7}, o)
	require.Equal(t, shown, b.recorded(shell.StreamOutput))
	require.Equal(t, "echo out; echo err >&2; exit 7\n", b.recorded(shell.StreamInput))
	require.Equal(t, `shell 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a begins: "anna" (certificate 4f) at 10.0.0.9:5000, for at most 60 `+
		`minutes, because: a test`, b.recorded(shell.StreamBegin))
	require.Contains(t, b.recorded(shell.StreamEnd), "ended: exit status 7; it has shown 8 bytes")
	s := b.session(grant().ID)
	require.Equal(t, shell.Session{
		ID: grant().ID, User: "anna", Serial: "4f", From: "10.0.0.9:5000", Reason: "a test", Minutes: 60, Until: begun.Add(time.Hour),
		Begun: begun.Add(time.Minute), Ended: begun.Add(time.Minute), Result: "exit status 7", Shown: 8,
	}, s)

	_, refused = b.open(callWith(data))
	require.Equal(t, kept.ErrUsed.Error(), refused, "once")
}

func TestAShellIgnoresNoSignal(t *testing.T) {
	bearBrokenPipes()
	b := newBench(t)
	c, refused := b.open(callWith(signed(t, grant(), signer)))
	require.Empty(t, refused)
	c.send(shell.Input, "grep SigIgn /proc/self/status\n")
	c.send(shell.End, "")
	shown, _ := c.end()
	ignored, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(shown, "SigIgn:")), 16, 64)
	require.NoError(t, err, shown)
	require.Zero(t, ignored&(1<<(unix.SIGPIPE-1)), "yes | head would never end well: %s", shown)
}

func TestAShellOnATerminalHasOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	call := callWith(signed(t, grant(), signer))
	call.Terminal = terminal
	c, refused := b.open(call)
	require.Empty(t, refused)
	c.send(shell.Input, "tty; echo $TERM; stty size\n")
	var seen strings.Builder
	for !strings.Contains(seen.String(), "24 80") {
		kind, data, err := shell.ReadFrame(c.in)
		require.NoError(t, err)
		require.Equal(t, shell.Output, kind)
		seen.Write(data)
	}
	c.send(shell.Resize, string(shell.Size{Rows: 30, Columns: 100}.Encode()))
	c.send(shell.Input, "stty size\n")
	c.send(shell.End, "")
	shown, o := c.end()
	require.Equal(t, 0, o.Status, o)
	all := seen.String() + shown
	require.Contains(t, all, "/dev/pts/")
	require.Contains(t, all, "vt100\r\n")
	require.Contains(t, all, "30 100")
	require.Equal(t, all, b.recorded(shell.StreamOutput))
	require.Empty(t, b.recorded(shell.StreamInput), "the terminal shows it, or it is a password")
}

func TestAGrantThatDoesNotHoldOpensNothingAndIsNotUsedUp(t *testing.T) {
	for why, make := range map[string]func(b *bench) Call{
		"not signed by a key of this image": func(b *bench) Call { return callWith(signed(t, grant(), stranger)) },
		"or was changed": func(b *bench) Call {
			return callWith(bytes.Replace(signed(t, grant(), signer), []byte("a test"), []byte("a tast"), 1))
		},
		"it is for another cluster": func(b *bench) Call {
			g := grant()
			g.Cluster = "other"
			return callWith(signed(t, g, signer))
		},
		"it is for node-00001, and this is node-00000": func(b *bench) Call {
			g := grant()
			g.Node = "node-00001"
			return callWith(signed(t, g, signer))
		},
		"it could be used until": func(b *bench) Call {
			b.m.Now = func() time.Time { return begun.Add(2 * time.Hour) }
			return callWith(signed(t, grant(), signer))
		},
		"it is for another certificate": func(b *bench) Call {
			c := callWith(signed(t, grant(), signer))
			c.Fingerprint = strings.Repeat("c2", 32)
			return c
		},
		"a shell is not for this certificate": func(b *bench) Call {
			c := callWith(signed(t, grant(), signer))
			c.Roles = []nodeapi.Role{nodeapi.Operator, nodeapi.Reader, nodeapi.Node}
			return c
		},
		"the grant is malformed": func(b *bench) Call { return callWith([]byte("x")) },
		"is not the name of a terminal": func(b *bench) Call {
			c := callWith(signed(t, grant(), signer))
			c.Terminal = &shell.Terminal{Kind: "x y", Size: terminal.Size}
			return c
		},
		"no shell without a record of it": func(b *bench) Call {
			b.noRecord = errors.New("the journal is gone")
			return callWith(signed(t, grant(), signer))
		},
		"there is no key": func(b *bench) Call {
			require.NoError(b.t, os.WriteFile(b.m.Root.At(shell.KeysPath), nil, 0o644))
			return callWith(signed(t, grant(), signer))
		},
		"read whose grants are taken": func(b *bench) Call {
			require.NoError(b.t, os.Remove(b.m.Root.At(shell.KeysPath)))
			return callWith(signed(t, grant(), signer))
		},
		"a shell is open on this node already": func(b *bench) Call {
			unlock, err := kept.In(b.m.Root).Lock(strings.Repeat("0b", 16))
			require.NoError(t, err)
			b.t.Cleanup(unlock)
			return callWith(signed(t, grant(), signer))
		},
	} {
		t.Run(why, func(t *testing.T) {
			b := newBench(t)
			c, refused := b.open(make(b))
			require.Contains(t, refused, why)
			require.NoError(t, <-c.done)
			require.NoError(t, kept.In(b.m.Root).Used(grant().ID))
			require.Empty(t, b.records)
		})
	}
}

func TestACallThatIsNoneIsRefused(t *testing.T) {
	b := newBench(t)
	for _, line := range []string{"\n", "{}\n", "{\"grant\":1}\n", "{\"more\":1}\n", strings.Repeat("x", maxCall+1) + "\n"} {
		_, refused := b.call([]byte(line))
		require.NotEmpty(t, refused, "%.20q", line)
	}
	here, there := pair(t)
	require.NoError(t, here.CloseWrite())
	require.NoError(t, b.s.Serve(t.Context(), there))
}

// ends opens a shell that would go on, and tells how it ended when something was done to it.
func ends(t *testing.T, b *bench, do func(c *client)) shell.Session {
	t.Helper()
	call := callWith(signed(t, grant(), signer))
	call.Terminal = terminal
	c, refused := b.open(call)
	require.Empty(t, refused)
	c.send(shell.Input, "sleep 1000; echo later\n")
	do(c)
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the shell goes on")
	}
	unlock, err := kept.In(b.m.Root).Lock(strings.Repeat("0b", 16))
	require.NoError(t, err, "another one may be opened")
	unlock()
	require.Contains(t, b.recorded(shell.StreamEnd), " ended: ")
	return b.session(grant().ID)
}

func TestASessionEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	s := ends(t, newBench(t), func(c *client) { require.NoError(t, c.conn.Close()) })
	require.Equal(t, errLost.Error(), s.Result)
	require.False(t, s.Ended.IsZero())
}

func TestASessionEndsWithItsConnectionWhileItsShellTakesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, refused := b.open(callWith(signed(t, grant(), signer)))
	require.Empty(t, refused)
	c.send(shell.Input, "sleep 1000\n")
	require.NoError(t, c.conn.SetWriteDeadline(time.Now().Add(time.Second)))
	for { // Until nothing more goes in.
		if err := shell.WriteFrame(c.conn, shell.Input, bytes.Repeat([]byte("#\n"), 1000)); err != nil {
			break
		}
	}
	require.NoError(t, c.conn.Close())
	<-c.done
	require.Equal(t, errLost.Error(), b.session(grant().ID).Result)
}

func TestASessionEndsWithTheNode(t *testing.T) {
	t.Parallel()
	s := ends(t, newBench(t), func(c *client) { c.stop() })
	require.Equal(t, errStopped.Error(), s.Result)
}

func TestASessionEndsWithTheJournal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	call := callWith(signed(t, grant(), signer))
	call.Terminal = terminal
	c, refused := b.open(call)
	require.Empty(t, refused)
	c.send(shell.Input, "echo be''gin\n")
	for !strings.Contains(b.recorded(shell.StreamOutput), "begin") {
		time.Sleep(10 * time.Millisecond)
	}
	before := b.recorded(shell.StreamOutput)
	b.mu.Lock()
	b.noRecord = errors.New("the journal is gone")
	b.mu.Unlock()
	c.send(shell.Input, "echo unseen\n")
	var shown bytes.Buffer
	for {
		kind, data, err := shell.ReadFrame(c.in)
		require.NoError(t, err)
		if kind == shell.Exit {
			require.Contains(t, string(data), "the journal is gone")
			break
		}
		shown.Write(data)
	}
	<-c.done
	require.True(t, strings.HasPrefix(before, shown.String()), "what was shown was recorded: %q", shown.String())
	require.Equal(t, "the journal is gone", b.session(grant().ID).Result)
}

func TestARecordHasABound(t *testing.T) {
	for name, c := range map[string]struct {
		part    int
		streams []string
	}{
		"of what is shown and read together": {shell.MaxFrame, []string{shell.StreamOutput, shell.StreamInput}},
		"of small parts":                     {1, []string{shell.StreamOutput}},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorder{send: func([]Field) error { return nil }}
			data := make([]byte, c.part)
			var err error
			most := maxRecord / (c.part + recordCost)
			n := 0
			for ; err == nil && n <= most; n++ {
				err = r.part(c.streams[n%len(c.streams)], data)
			}
			require.ErrorIs(t, err, errMuch)
			require.Equal(t, most+1, n)
		})
	}
}

func TestWhatTheServerSaysOfACallerDoesNothingToATerminal(t *testing.T) {
	b := newBench(t)
	call := callWith(signed(t, grant(), signer))
	call.Caller, call.Serial, call.From = "an\x1b[2Jna", "4\nf", strings.Repeat("ä", 300)
	c, refused := b.open(call)
	require.Empty(t, refused)
	c.send(shell.End, "")
	c.end()
	s := b.session(grant().ID)
	require.Equal(t, `an\x1b[2Jna`, s.User)
	require.Equal(t, `4\x0af`, s.Serial)
	require.Equal(t, strings.Repeat("ä", 128), s.From)
	require.NotContains(t, b.recorded(shell.StreamBegin), "\x1b")
	require.NotContains(t, b.recorded(shell.StreamBegin), "\n")
}

func TestFramesThatNobodyMaySendEndTheSession(t *testing.T) {
	for _, frame := range []string{"z\x00\x00", "o\x00\x00", "x\x00\x00", "r\x00\x01x", "r\x00\x04\x00\x00\x00\x00"} {
		t.Run(strconv.Quote(frame), func(t *testing.T) {
			t.Parallel()
			s := ends(t, newBench(t), func(c *client) {
				_, err := c.conn.Write([]byte(frame))
				require.NoError(t, err)
			})
			require.NotContains(t, s.Result, "exit status")
		})
	}
}

func TestAShellThatDoesNotHearIsKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, refused := b.open(callWith(signed(t, grant(), signer)))
	require.Empty(t, refused)
	c.send(shell.Input, "trap '' HUP; echo ready; while :; do sleep 1000; done\n")
	_, _, err := shell.ReadFrame(c.in)
	require.NoError(t, err)
	require.NoError(t, c.conn.Close())
	<-c.done
	require.Equal(t, errLost.Error(), b.session(grant().ID).Result)
}

func TestWhatIsLeftInTheBackgroundIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, refused := b.open(callWith(signed(t, grant(), signer)))
	require.Empty(t, refused)
	began := time.Now()
	c.send(shell.Input, "sleep 20 & echo done; exit 0\n")
	shown, o := c.end()
	require.Equal(t, "done\n", shown)
	require.Equal(t, shell.Outcome{}, o)
	require.Less(t, time.Since(began), 15*time.Second)
}

func TestWhatAShellHasShownIsTakenToItsEndAlsoWhereThatIsSlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.slow = 200 * time.Millisecond
	c, refused := b.open(callWith(signed(t, grant(), signer)))
	require.Empty(t, refused)
	c.send(shell.Input, "head -c 60000 /dev/zero; exit 5\n")
	shown, o := c.end()
	require.Equal(t, shell.Outcome{Status: 5}, o)
	require.Len(t, shown, 60000)
	require.Len(t, b.recorded(shell.StreamOutput), 60000)
}

func TestTheEndOfASessionIsKeptBeforeItIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.slow = 300 * time.Millisecond
	c, refused := b.open(callWith(signed(t, grant(), signer)))
	require.Empty(t, refused)
	c.send(shell.Input, "exit 0\n")
	kind, _, err := shell.ReadFrame(c.in)
	require.NoError(t, err)
	require.Equal(t, shell.Exit, kind)
	require.Equal(t, begun.Add(time.Minute), b.session(grant().ID).Ended)
	require.Contains(t, b.recorded(shell.StreamEnd), "exit status 0")
}

func TestWhatIsSentBehindTheEndIsNotRecorded(t *testing.T) {
	b := newBench(t)
	r := &recorder{send: b.send}
	gone := make(chan struct{})
	close(gone)
	o := session{rec: r, p: &program{gone: gone}}
	require.NoError(t, o.obey(shell.Input, []byte("id\n")))
	require.Empty(t, b.recorded(shell.StreamInput), "nobody has read it")
}

func TestWhatShowsMoreInTheBackgroundIsNotTakenForever(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.slow = 5 * time.Millisecond
	c, refused := b.open(callWith(signed(t, grant(), signer)))
	require.Empty(t, refused)
	c.send(shell.Input, "yes & exit 0\n") // It ends when nobody reads it any more.
	shown, o := c.end()
	require.Equal(t, shell.Outcome{}, o)
	require.Less(t, len(shown), maxRecord)
}

func TestAShellThatNoSignalEndsIsLeftAlone(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer write.Close()
	cmd := exec.Command("sleep", "1000") // It leads no group, so that no signal for its group comes.
	require.NoError(t, cmd.Start())
	p := &program{cmd: cmd, in: write, out: read, gone: make(chan struct{}), stuck: make(chan struct{})}
	defer p.close()
	go p.hangup()
	require.Equal(t, 128+int(unix.SIGKILL), p.wait())
	require.Eventually(t, func() bool {
		_, err := p.read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	<-p.gone
}

func TestAnImageHasAShellOrNone(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.False(t, Built(root))
	require.NoError(t, os.MkdirAll(filepath.Dir(root.At(shell.KeysPath)), 0o755))
	require.NoError(t, os.WriteFile(root.At(shell.KeysPath), nil, 0o644))
	require.True(t, Built(root))
}

func TestTheJournalGetsARecordOrSaysThatItDidNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	j := &Journal{Path: path}
	defer j.Close()
	require.ErrorContains(t, j.Send([]Field{{"MESSAGE", "x"}}), "record it in the journal")
	listen := func() *net.UnixConn {
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		require.NoError(t, err)
		return l
	}
	take := func(l *net.UnixConn) string {
		buf := make([]byte, 1<<10)
		n, err := l.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	l := listen()
	require.NoError(t, j.Send([]Field{{"MESSAGE", "x"}, {"A", "two\nlines"}}))
	require.Equal(t, "MESSAGE=x\nA\n\x09\x00\x00\x00\x00\x00\x00\x00two\nlines\n", take(l))
	require.NoError(t, l.Close())
	require.NoError(t, os.Remove(path))
	l = listen()
	require.NoError(t, j.Send([]Field{{"MESSAGE", "y"}}), "journald was restarted")
	require.Equal(t, "MESSAGE=y\n", take(l))
	require.NoError(t, l.Close())
	require.Error(t, j.Send([]Field{{"MESSAGE", "z"}}))
}

func FuzzCall(f *testing.F) {
	line, err := json.Marshal(callWith([]byte("x")))
	require.NoError(f, err)
	f.Add(line)
	f.Add([]byte(`{"terminal":{"kind":"vt100","Rows":1,"Columns":1}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := ParseCall(line)
		if err == nil && c.Terminal != nil && c.Terminal.Check() != nil {
			t.Fatal("a terminal that is none")
		}
	})
}
