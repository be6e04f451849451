//go:build e2e

package nspawn

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/pki"
	"spore/pki/enroll"
	"spore/test/browser"
	"spore/test/client"
)

// hostile is what must stay text wherever somebody can write it.
const hostile = `<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"'&`

const (
	// pagesBound is how long a page may take to have what a service says: one that is slow to ask is asked every 20 s.
	pagesBound = 90 * time.Second
	// greyBound is that of docs/dashboard.md in which what is old is seen as such.
	greyBound = 10 * time.Second
)

// pagesLab is a cluster with all services, which work, and its pages in a browser.
type pagesLab struct {
	*Lab
	masters *masters
	brokers *brokers
	mons    *mons
	tab     *browser.Tab
	// folder is the operator's, which is another one than the nodes run, and origin where the pages are.
	folder, origin string
	// boot is the folder of spore serve, and claim what a machine has said there.
	boot  string
	claim enroll.Claim
	// member is a client of etcd, and screen one of Mosquitto.
	member *clientv3.Client
	screen *client.MQTT
}

// TestPagesOfARealCluster compares each figure of each page of spore dashboard with what the services say to clients of
// their own.
func TestPagesOfARealCluster(t *testing.T) {
	secrets := map[string]string{"mqtt-password-operator": edgePassword, "kafka-password-admin": adminPassword}
	l := &pagesLab{Lab: New(t, Options{
		Source: "../..", Configs: "testdata/pages", Secrets: secrets, Named: true, Masked: append([]string{"rbd-node.service"}, withoutCGroups...),
	})}
	admin, err := l.Keys.Admin(&l.Cluster, "test", pki.KubernetesLife, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	l.masters, l.mons = &masters{Lab: l.Lab, client: admin}, &mons{l.Lab}
	l.StartAll()
	l.masters.voters("node-1", "node-2", "node-3")
	l.mons.quorum("node-1", "node-2", "node-3")
	for _, n := range l.Nodes() {
		t.Logf("%s used %.1f CPU seconds", n.Facts.Name, n.CPU().Seconds())
	}
	kafka := client.KafkaOptions{Roots: l.Authority("kafka"), User: "admin", Password: adminPassword}
	for _, n := range l.Nodes() {
		kafka.Seeds = append(kafka.Seeds, n.IP()+":"+clientPort)
	}
	c, err := client.NewKafka(kafka)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	l.brokers = &brokers{Lab: l.Lab, client: c, admin: kadm.NewClient(c)}
	l.member = l.etcd(l.Node("node-1"))
	l.work(t)
	l.serve(t)
	l.browse(t)

	for _, page := range []struct {
		name string
		test func(*testing.T)
	}{
		{"the cluster", l.cluster},
		{"a node", func(t *testing.T) { l.node(t, l.Node("node-1")) }},
		{"versions", l.versions},
		{"certificates", l.certificates},
		{"quorums", func(*testing.T) { l.open("/quorums"); l.quorums(3) }},
		{"Kafka", l.kafkaPage},
		{"Ceph", func(*testing.T) { l.ceph() }},
		{"Kubernetes", func(*testing.T) { l.kubernetes() }},
		{"MQTT and DNS", l.messaging},
		{"alerts and history", l.alerts},
		{"logs", l.logs},
		{"the store of logs has lines of each daemon, and no secret", l.stored},
		{"charts", l.charts},
		{"configuration", l.configuration},
		{"machines", l.machines},
	} {
		// One that is wrong is no reason to leave out the others.
		t.Run(page.name, func(of *testing.T) {
			defer func() { l.t = t }()
			l.t = of
			page.test(of)
			l.unharmed(l.tab)
		})
	}
	t.Run("faults while pages are open", func(of *testing.T) {
		if os.Getenv("SPORE_SOAK") == "" {
			of.Skip("elsewhere: make soak")
		}
		defer func() { l.t = t }()
		l.t = of
		l.faults(of)
	})
	for _, n := range l.Nodes() {
		t.Logf("%s used %.1f CPU seconds", n.Facts.Name, n.CPU().Seconds())
	}
}

// unharmed holds that nothing of what is hostile was more than text, and that nothing was wrong.
func (l *pagesLab) unharmed(b *browser.Tab) {
	l.t.Helper()
	require.False(l.t, browser.Eval[bool](b, "'hacked' in window"))
	require.Zero(l.t, browser.Eval[int](b, "document.querySelectorAll('img, main script').length"))
	b.Clean(l.origin)
}

// configuration compares the page with what differs between the two folders.
func (l *pagesLab) configuration(t *testing.T) {
	l.open("/configuration")
	l.tab.Sees(pagesBound, browser.Says("services/dns.yaml"), "what differs")
	require.Equal(t, []string{"+ services/dns.yaml:3 | ttl: 17"}, l.column("line", 0, 1))
	text := l.tab.Text()
	require.Contains(t, text, "3 nodes run something else than the folder")
	require.Contains(t, text, fmt.Sprintf("node-1, node-2, node-3; configuration %.12s", l.started.ClusterHash))
	require.Equal(t, 1, strings.Count(text, "differs\n"), text)
	require.NotContains(t, text, "the nodes have not")
	require.NotContains(t, text, "the folder has not")
}

// serve starts spore serve, for which a machine asks for the secrets of a node.
func (l *pagesLab) serve(t *testing.T) {
	l.boot = filepath.Join(l.dir, "boot")
	configs, err := filepath.Abs(l.options.Configs)
	require.NoError(t, err)
	l.onHost(l.options.Source, l.program, "build", configs, "-o", l.boot, "--pki", filepath.Join(l.dir, "keys"), "--format", "netboot")
	cmd := exec.Command(l.program, "serve", l.boot, "--dhcp", "off", "--tftp-port", "off", "--http-port", "8080", "--pki", filepath.Join(l.dir, "keys"))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe() // It is open for as long as the command runs.
	require.NoError(t, err)
	l.starts(t, cmd)
	key, err := enroll.NewKey()
	require.NoError(t, err)
	l.claim = enroll.NewClaim(enroll.Claim{
		Cluster: l.Cluster.ID, Node: "node-3", Key: key.Public(), MACs: []string{"52:54:00:84:00:99"}, Serial: "S3RI4L",
	})
	require.Eventually(t, func() bool {
		_, err = enroll.Client{Base: "http://" + l.Cluster.Network.Gateways[0] + ":8080/"}.Ask(t.Context(), l.claim)
		return err == nil
	}, time.Minute, 200*time.Millisecond, "a machine asks: %v", err)
}

// machines compares the page with what the machine has said.
func (l *pagesLab) machines(t *testing.T) {
	l.open("/machines")
	l.tab.Sees(pagesBound, browser.Says("spore approve"), "the machine waits")
	row := l.rows("fingerprint")[l.claim.Fingerprint()]
	require.Len(t, row, 5, l.tables())
	require.Equal(t, []string{"node-3", "warning: waiting", "–", "spore approve " + l.boot + " " + l.claim.Fingerprint()}, []string{row[0], row[2], row[3], row[4]})
	require.Contains(t, row[1], l.Cluster.Network.Gateways[0])
}

// starts runs a command until the test ends.
func (l *pagesLab) starts(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		_ = cmd.Wait()
	})
}

// tileIs is an expression about the tile of a node, which is e in it.
func tileIs(name, of string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".tile")].some((e) => e.querySelector("a").textContent === %q && (%s))`, name, of)
}

// faults has a broker stop and its node lose its power while pages are open.
func (l *pagesLab) faults(t *testing.T) {
	lost := l.Node("node-3")
	first := l.tab
	cluster, quorums, kafka := first.Beside(), first.Beside(), first.Beside()
	for path, b := range map[string]*browser.Tab{"/": cluster, "/quorums": quorums, "/kafka": kafka} {
		b.Open(l.origin + path)
	}
	first.Open("about:blank")
	quorums.Sees(pagesBound, browser.Says("Ceph's monitors"), "the quorums")
	kafka.Sees(pagesBound, browser.Says("3 of 3 serve"), "Kafka")

	lost.MustExec("systemctl", "stop", "kafka.service")
	l.tab = kafka
	l.agree("a broker is stopped", func() any { return l.column("topic", 0, 1, 2, 3, 4) }, func() (any, error) {
		rows, err := l.topicsSay(t.Context())
		if err == nil && !strings.Contains(fmt.Sprint(rows), "warning: ") {
			err = fmt.Errorf("no copy is behind: %v", rows)
		}
		return rows, err
	})
	kafka.Sees(pagesBound, browser.Says("the broker is down"), "a broker is stopped, in words")
	require.Contains(t, l.column("broker", 0, 1), "node-3 | critical: down")

	lost.PowerLoss()
	cluster.Sees(greyBound, tileIs("node-3", `e.classList.contains("stale") && /as of \d+ s ago/.test(e.innerText)`), "a node without power is grey")
	require.False(t, browser.Eval[bool](cluster, tileIs("node-1", `e.classList.contains("stale")`)), "another one is not")
	cluster.Sees(pagesBound, browser.Says("2 of 3 nodes answer")+"&&"+browser.Says("it does not answer"), "why")
	l.tab = quorums
	l.quorums(2)

	lost.Start()
	lost.Running()
	cluster.Sees(pagesBound, tileIs("node-3", `!e.classList.contains("stale")`)+"&&"+browser.Says("3 of 3 nodes answer"), "the node is back")
	l.quorums(3)
	l.tab = kafka
	l.agree("topics", func() any { return l.column("topic", 0, 1, 2, 3, 4) }, func() (any, error) {
		rows, err := l.topicsSay(t.Context())
		if err == nil && strings.Contains(fmt.Sprint(rows), "warning: ") {
			err = fmt.Errorf("copies are behind: %v", rows)
		}
		return rows, err
	})
	for _, b := range []*browser.Tab{cluster, quorums, kafka} {
		l.unharmed(b)
	}
}

// browse starts spore dashboard with the operator's folder, in which a file has changed, and opens its page.
func (l *pagesLab) browse(t *testing.T) {
	l.folder = filepath.Join(l.dir, "configs")
	require.NoError(t, os.CopyFS(l.folder, os.DirFS(l.options.Configs)))
	file := filepath.Join(l.folder, "services", "dns.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(text, "ttl: 17\n"...), 0o644))
	cmd := exec.Command(l.program, "dashboard", l.folder, "--pki", filepath.Join(l.dir, "keys"), "--out", l.boot)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	l.starts(t, cmd)
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	address = strings.TrimSpace(address)
	l.origin = address[:strings.LastIndex(address, "/")]
	chromium, err := browser.Start()
	require.NoError(t, err)
	t.Cleanup(chromium.End)
	l.tab = chromium.Tab(t)
	l.tab.Open(address)
	l.tab.Sees(pagesBound, browser.Says("wrong")+"&&!"+browser.Says("it has not answered yet"), "all nodes have answered")
}

// table is one of a page, with the texts of its cells; a mark is the word in front of a cell, such as "ok: ".
type table struct {
	Head []string
	Rows [][]string
}

// tables are those of the page.
func (l *pagesLab) tables() []table {
	l.t.Helper()
	return browser.Eval[[]table](l.tab, `(() => {
		const text = (e) => { const c = e.cloneNode(true); c.querySelectorAll(".mark").forEach((m) => m.remove()); return c.textContent.trim().replace(/\s+/g, " "); };
		return [...document.querySelectorAll("#main table")].map((t) => ({
			Head: [...t.tHead.rows[0].cells].map(text), Rows: [...t.tBodies[0].rows].map((r) => [...r.cells].map(text)) })); })()`)
}

// rows are the rows of the table whose first column has the name, by their first cells.
func (l *pagesLab) rows(first string) map[string][]string {
	l.t.Helper()
	out := map[string][]string{}
	for _, t := range l.tables() {
		if len(t.Head) == 0 || t.Head[0] != first {
			continue
		}
		for _, r := range t.Rows {
			out[r[0]] = r[1:]
		}
	}
	return out
}

// open opens a page.
func (l *pagesLab) open(path string) {
	l.t.Helper()
	l.tab.Open(l.origin + path)
}

// agree waits until what a page shows is what a service told just before or just after.
func (l *pagesLab) agree(what string, shown func() any, told func() (any, error)) {
	l.t.Helper()
	began := time.Now()
	for {
		before, err := told()
		page := shown()
		after, err2 := told()
		if err == nil && fmt.Sprint(page) == fmt.Sprint(before) || err2 == nil && fmt.Sprint(page) == fmt.Sprint(after) {
			l.t.Logf("%s, after %.1f s: %v", what, time.Since(began).Seconds(), page)
			return
		}
		if time.Since(began) > pagesBound {
			require.NoError(l.t, err, what)
			require.Equal(l.t, fmt.Sprint(after), fmt.Sprint(page), what)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
