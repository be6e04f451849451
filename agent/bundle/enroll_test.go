package bundle

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/enroll"
	"spore/pki/seal"
	"spore/storage/atomicfile"
)

// asking is a machine that was started from a disk, whose cluster.yaml has a server of enroll.
type asking struct {
	*node.Machine
	t      *testing.T
	tree   *pki.Tree
	server *enroll.Server
	base   string
}

func newAsking(t *testing.T) asking {
	t.Helper()
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "node-00001")
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	a := asking{Machine: m, t: t, tree: nodetest.WithKeys(t, m)}
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	a.server = enroll.NewServer(enroll.ServerOptions{
		Cluster: c.ID, Now: time.Now, Known: func(name string) bool { return strings.HasPrefix(name, "node-") },
	})
	h := httptest.NewServer(a.server)
	t.Cleanup(h.Close)
	a.base = h.URL + "/"
	a.asks(a.base)
	return a
}

// asks has the image name a server.
func (a asking) asks(base string) {
	c, err := a.Part.Cluster()
	require.NoError(a.t, err)
	c.Enroll = base
	require.NoError(a.t, atomicfile.WriteJSON(filepath.Join(a.Part.Dir, facts.ClusterFile), c))
}

// bundle is that of a node.
func (a asking) bundle(name string) []byte {
	a.t.Helper()
	c, err := a.Part.Cluster()
	require.NoError(a.t, err)
	n, err := a.Part.Node(name)
	require.NoError(a.t, err)
	data, err := a.tree.BundleFor(c, n, time.Now())
	require.NoError(a.t, err)
	return data
}

// run has the machine ask until the test ends or it has its bundle, which done says.
func (a asking) run() (done chan error) {
	ctx, cancel := context.WithCancel(a.t.Context())
	done = make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- Enroll(ctx, a.Machine)
	}()
	a.t.Cleanup(func() { cancel(); <-ended })
	return done
}

// shows waits for what the status line says of the bundle.
func (a asking) shows(text string) Info {
	a.t.Helper()
	var info Info
	require.Eventually(a.t, func() bool {
		info = readInfo(a.t, a.Machine)
		return strings.Contains(info.Problem, text)
	}, 30*time.Second, 10*time.Millisecond, "%q is not shown: %+v", text, &info)
	return info
}

// approve gives a machine the bundle of a node.
func (a asking) approve(r enroll.Request, node string) {
	a.t.Helper()
	sealed, err := enroll.Seal(a.bundle(node), r.Claim, false)
	require.NoError(a.t, err)
	require.NoError(a.t, a.server.Approve(enroll.Approval{Claim: r.Claim, Sealed: sealed, At: time.Now()}))
}

func TestAMachineFromADiskAsksTheServerOfTheConfiguration(t *testing.T) {
	a := newAsking(t)
	require.NoError(t, Take(t.Context(), a.Machine, false))
	require.FileExists(t, a.Root.At(paths.BundleEnroll), "spore-enroll.service is to start")
	_, held := starts(t, a.Machine)
	require.NotEmpty(t, held)

	done := a.run()
	info := a.shows("no bundle came with the machine; waiting for the operator to approve the key of this machine (spore approve) at " + a.base)
	requests := a.server.Requests()
	require.Len(t, requests, 1)
	require.Equal(t, "node-00001", requests[0].Claim.Node)
	require.Equal(t, requests[0].Fingerprint, info.Fingerprint)

	a.approve(requests[0], "node-00001")
	require.NoError(t, <-done)
	info = readInfo(t, a.Machine)
	require.Equal(t, uint64(1), info.Serial)
	require.Equal(t, delivery.Network, info.From)
	require.Empty(t, info.Problem)
	require.Empty(t, info.Fingerprint)
	require.NoFileExists(t, a.Root.At(paths.BundleEnroll))
	targets, held := starts(t, a.Machine)
	require.Equal(t, []string{"dns.target", "mqtt.target"}, targets)
	require.Empty(t, held)
	require.NoError(t, Enroll(t.Context(), a.Machine), "who has a bundle asks no more")
	require.Len(t, a.server.Requests(), 1)
}

func TestAMachineThatComesSecondSaysWhoHasItsNode(t *testing.T) {
	a := newAsking(t)
	first, err := enroll.NewKey()
	require.NoError(t, err)
	c, err := a.Part.Cluster()
	require.NoError(t, err)
	other := enroll.NewClaim(enroll.Claim{Cluster: c.ID, Node: "node-00001", Key: first.Public(), MACs: []string{"52:54:00:ff:00:01"}})
	require.NoError(t, a.server.Approve(enroll.Approval{Claim: other, Sealed: []byte("x"), At: time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)}))
	require.NoError(t, Take(t.Context(), a.Machine, false))
	a.run()
	info := a.shows("node-00001 has been given to another machine (fingerprint " + other.Fingerprint() + ", approved 2026-05-01 12:30 UTC)")
	require.NotEmpty(t, info.Fingerprint)
	require.NotEqual(t, other.Fingerprint(), info.Fingerprint)
	require.Contains(t, info.Problem, "spore approve --replace")
	_, held := starts(t, a.Machine)
	require.NotEmpty(t, held)
}

// Whoever answers at that address can send what he likes.
func TestABundleOfAnotherNodeIsNotTakenFromTheServer(t *testing.T) {
	a := newAsking(t)
	require.NoError(t, Take(t.Context(), a.Machine, false))
	a.run()
	a.shows("waiting for the operator")
	a.approve(a.server.Requests()[0], "node-00002")
	info := a.shows("the bundle that " + a.base + " sent was refused: ")
	require.Contains(t, info.Problem, `for node "node-00002", and this is "node-00001"`)
	require.Zero(t, info.Serial)
	require.NoFileExists(t, a.Root.At(paths.Secrets+"/mosquitto/tls-key"))
}

func TestWhatWasRefusedIsSaidBesideTheQuestion(t *testing.T) {
	a := newAsking(t)
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), delivery.CredentialName), a.bundle("node-00002"), 0o600))
	require.NoError(t, Take(t.Context(), a.Machine, false))
	require.FileExists(t, a.Root.At(paths.BundleEnroll))
	a.run()
	info := a.shows("waiting for the operator")
	require.True(t, strings.HasPrefix(info.Problem, "the bundle that the firmware gave was refused: "), info.Problem)
	require.NotContains(t, info.Problem, "no bundle came")
	require.True(t, strings.HasPrefix(info.Delivery, "the bundle that the firmware gave was refused: "), "a process that is started again says it, too")
}

// Everybody can encrypt to a key that he has heard.
func TestAServerCannotHaveThePassphraseAskedFor(t *testing.T) {
	a := newAsking(t)
	require.NoError(t, Take(t.Context(), a.Machine, false))
	a.run()
	a.shows("waiting for the operator")
	data, err := seal.WithPassphrase(a.bundle("node-00001"), "five words drawn by dice", 10)
	require.NoError(t, err)
	r := a.server.Requests()[0]
	sealed, err := enroll.Seal(data, r.Claim, false)
	require.NoError(t, err)
	require.NoError(t, a.server.Approve(enroll.Approval{Claim: r.Claim, Sealed: sealed, At: time.Now()}))
	a.shows("sent was refused: it is encrypted with a passphrase")
	require.NoFileExists(t, a.Root.At(paths.BundleAsk))
	require.FileExists(t, a.Root.At(paths.BundleEnroll), "it goes on to ask when its process is started again")
}

func TestABundleThatAPassphraseOpenedInVainIsNotWaitedFor(t *testing.T) {
	a := newAsking(t)
	sealed, err := seal.WithPassphrase(a.bundle("node-00002"), "five words drawn by dice", 10)
	require.NoError(t, err)
	require.NoError(t, deliverTo(a.Machine, sealed))
	tk, err := newTaker(a.Machine)
	require.NoError(t, err)
	for i := range tk.in.Delivered {
		tk.in.Delivered[i].Opened = a.bundle("node-00002")
	}
	_, err = tk.take(t.Context())
	require.NoError(t, err)
	require.FileExists(t, a.Root.At(paths.BundleEnroll))

	done := a.run()
	require.Contains(t, a.shows("waiting for the operator").Problem, "was refused")
	a.approve(a.server.Requests()[0], "node-00001")
	require.NoError(t, <-done)
	info := readInfo(t, a.Machine)
	require.NotZero(t, info.Serial)
	require.Empty(t, info.Problem)
	require.NoFileExists(t, a.Root.At(paths.BundleAsk))
}

func TestABundleThatIsRefusedAgainLeavesTheFingerprint(t *testing.T) {
	a := newAsking(t)
	require.NoError(t, Take(t.Context(), a.Machine, false))
	tk, err := newTaker(a.Machine)
	require.NoError(t, err)
	key, err := enroll.NewKey()
	require.NoError(t, err)
	sealed, err := enroll.Seal(a.bundle("node-00002"), enroll.Claim{Key: key.Public()}, false)
	require.NoError(t, err)
	require.NoError(t, tk.show("it was refused", "what came was refused", "k3vq-7xha-m2pd-wz4c-ab2e"))
	shown := readInfo(t, a.Machine)
	require.ErrorContains(t, tk.takeSealed(t.Context(), key, nil, sealed), "node-00002")
	require.Equal(t, shown, readInfo(t, a.Machine))
}

func TestWhoAsksNobody(t *testing.T) {
	for name, change := range map[string]func(a asking){
		"without enroll in cluster.yaml": func(a asking) { a.asks("") },
		"an image without keys": func(a asking) {
			c, err := a.Part.Cluster()
			require.NoError(t, err)
			c.SigningKeys = nil
			require.NoError(t, atomicfile.WriteJSON(filepath.Join(a.Part.Dir, facts.ClusterFile), c))
		},
		"a machine from a disk that matches no node": func(a asking) { nodetest.Is(a.t, a.Machine, "") },
		"a machine that has its bundle": func(a asking) {
			require.NoError(a.t, deliverTo(a.Machine, a.bundle("node-00001")))
		},
		"a machine whose bundle waits for its passphrase": func(a asking) {
			sealed, err := seal.WithPassphrase(a.bundle("node-00001"), "five words drawn by dice", 10)
			require.NoError(a.t, err)
			require.NoError(a.t, deliverTo(a.Machine, sealed))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsking(t)
			change(a)
			require.NoError(t, Take(t.Context(), a.Machine, false))
			require.NoFileExists(t, a.Root.At(paths.BundleEnroll))
			require.NoError(t, Enroll(t.Context(), a.Machine))
			require.Empty(t, a.server.Requests())
		})
	}
}

func TestWhichServerIsAsked(t *testing.T) {
	a := newAsking(t)
	c, err := a.Part.Cluster()
	require.NoError(t, err)
	require.Equal(t, asked{a.base, "the server of enroll in cluster.yaml"}, whoIsAsked(a.Machine, c))
	a.Boot = bootinfo.Info{NetworkURL: "http://10.77.0.1/boot/"}
	require.Equal(t, asked{"http://10.77.0.1/boot/", "the server that it was booted from"}, whoIsAsked(a.Machine, c))
}
