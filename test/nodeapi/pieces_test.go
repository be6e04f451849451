package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/answers"
	"spore/agent/netnstest"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/pull"
	"spore/agent/pull/looked"
	"spore/agent/slot"
	"spore/storage/pieces"
	protocol "spore/wire/nodeapi"
	"spore/wire/update"
)

// nodeVariable has this program be a node: it is the root of its file system.
const nodeVariable = "SPORE_TEST_NODE"

func TestMain(m *testing.M) {
	if root := os.Getenv(nodeVariable); root != "" {
		if err := beNode(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beNode is a node as its own process: its API, and a look for updates when a line comes on the standard input, whose
// result is a line on the standard output. It ends with its input.
func beNode(root string) error {
	m := node.New("spore-agent", paths.Root(root))
	m.Say = func(s string) { fmt.Fprintln(os.Stderr, s) }
	_, n, err := m.Self()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", n.IPs[0], protocol.Port))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- answers.ServeOn(ctx, m, l) }()
	go stageAll(ctx, m)
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := pull.Look(ctx, m); err != nil {
			return err
		}
		text, err := os.ReadFile(m.Root.At(paths.Looked))
		if err != nil {
			return err
		}
		fmt.Println(strings.TrimSpace(string(text)))
	}
	stop()
	return <-served
}

// wanted is the file with the hashes of all objects of the update, in their order.
const wanted = "wanted"

// stageAll stands for spore-stage.service: it takes what lies in the spool, and says what the node lacks.
func stageAll(ctx context.Context, m *node.Machine) {
	there := map[string]bool{}
	for ctx.Err() == nil {
		job, err := slot.Spool(m.Root.At(paths.Push)).Next()
		if err == nil && job != nil {
			err = job.Answer(stageOne(m, job, there))
		}
		if err != nil {
			m.Say(err.Error())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func stageOne(m *node.Machine, job *slot.Job, there map[string]bool) update.Answer {
	fail := func(err error) update.Answer { return update.Answer{Error: err.Error()} }
	var message bytes.Buffer
	if err := job.CopyTo(&message, update.MaxMessage); err != nil {
		return fail(err)
	}
	c, err := m.Part.Cluster()
	if err != nil {
		return fail(err)
	}
	var keys []ed25519.PublicKey
	for _, text := range c.SigningKeys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fail(err)
		}
		keys = append(keys, key)
	}
	r := bufio.NewReader(&message)
	head, err := update.Read(r, keys)
	if err != nil {
		return fail(err)
	}
	err = update.Objects(r, func(o []byte) error {
		there[pieces.SumOf(o).String()] = true
		return nil
	})
	if err != nil {
		return fail(err)
	}
	text, err := os.ReadFile(m.Root.At(wanted))
	if err != nil {
		return fail(err)
	}
	lack := &update.Lack{}
	for _, sum := range strings.Fields(string(text)) {
		if !there[sum] {
			lack.Count++
			lack.Objects = append(lack.Objects, sum)
		}
	}
	a := update.Answer{Serial: head.Serial}
	if lack.Count > 0 {
		a.Lacks = lack
		return a
	}
	a.Entry = "spore+3.efi"
	return a
}

// nodeProcess is a node that runs.
type nodeProcess struct {
	in  io.WriteCloser
	out *bufio.Reader
	// ended ends it, once.
	ended func() error
}

// end has the node end.
func (p *nodeProcess) end(t *testing.T) {
	t.Helper()
	require.NoError(t, p.ended())
}

// startNode starts a node as a process of its own, with its secrets as its unit is given them.
func startNode(t *testing.T, name string, m *node.Machine) *nodeProcess {
	t.Helper()
	root := m.Root.At("/")
	for _, dir := range []string{paths.Push, paths.FetchedPieces} {
		require.NoError(t, os.MkdirAll(m.Root.At(dir), 0o700))
	}
	given := t.TempDir()
	of := filepath.Join(m.Root.At(paths.Secrets), node.APIProgram)
	secrets, err := os.ReadDir(of)
	require.NoError(t, err)
	require.NotEmpty(t, secrets)
	for _, s := range secrets {
		content, err := os.ReadFile(filepath.Join(of, s.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(given, "secret_"+s.Name()), content, 0o600))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), nodeVariable+"="+root, "CREDENTIALS_DIRECTORY="+given)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &nodeProcess{in, bufio.NewReader(out), sync.OnceValue(func() error {
		in.Close()
		err := cmd.Wait()
		t.Logf("%s: %s", name, said.String())
		return err
	})}
	t.Cleanup(func() { p.end(t) })
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, "%s: %s", name, said.String())
	require.Equal(t, "ready\n", line)
	return p
}

// look has the node look for an update.
func (p *nodeProcess) look(t *testing.T) looked.Last {
	t.Helper()
	_, err := fmt.Fprintln(p.in, "look")
	require.NoError(t, err)
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	var l looked.Last
	require.NoError(t, json.Unmarshal([]byte(line), &l))
	return l
}

// Two nodes that look at the same time, each a process with the API of a node, share the pieces of an update: each
// fetches some from the web server, and has the others from the other node, over TLS with the certificates of their
// bundles.
func TestTwoNodesGiveEachOtherThePiecesOfAnUpdate(t *testing.T) {
	netnstest.Run(t, twoNodesGiveEachOtherPieces)
}

func twoNodesGiveEachOtherPieces(t *testing.T) {
	s := newSite(t, 2, 40)
	looks := s.look(t)
	for name, l := range looks {
		t.Logf("%s: %d bytes from outside, %d from the other node", name, l.Outside, l.Nodes)
		require.NotZero(t, l.Outside, name)
		require.NotZero(t, l.Nodes, name)
	}
	require.Equal(t, s.size, s.uplink.bytes, "what one has fetched, the other has from it")
	require.Equal(t, 1, s.most(t))
}
