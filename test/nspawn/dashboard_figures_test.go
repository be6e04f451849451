//go:build e2e

package nspawn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"spore/services/kafka"
	"spore/services/metrics"
	"spore/test/browser"
)

// get asks what listens on the loopback of a node, and wants the password of an entry that one of its programs has.
func (l *pagesLab) get(n *Node, port int, path, secret string, into any) error {
	text, err := l.read(n, port, path, n.MustExec("sh", "-c", `set -- /run/spore/secrets/*/`+secret+`; cat "$1"`))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (l *pagesLab) read(n *Node, port int, path, password string) ([]byte, error) {
	c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.Dial}}
	r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth(metrics.User, password)
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %.300s", path, res.Status, text)
	}
	return text, err
}

// column are some cells of each row of the table whose first column has the name, as lines in order.
func (l *pagesLab) column(first string, cells ...int) []string {
	l.t.Helper()
	var out []string
	for _, t := range l.tables() {
		if len(t.Head) == 0 || t.Head[0] != first {
			continue
		}
		for _, r := range t.Rows {
			var some []string
			for _, c := range cells {
				if c < len(r) {
					some = append(some, r[c])
				}
			}
			out = append(out, strings.Join(some, " | "))
		}
	}
	sort.Strings(out)
	return out
}

// line is what a table has in a row.
func line(cells ...any) string {
	var out []string
	for _, c := range cells {
		out = append(out, fmt.Sprint(c))
	}
	return strings.Join(out, " | ")
}

// sorted has lines in order, as column has them.
func sorted(lines []string) []string {
	sort.Strings(lines)
	return lines
}

// sections are the texts of the paragraphs under each heading of second order.
func (l *pagesLab) sections() map[string]string {
	l.t.Helper()
	return browser.Eval[map[string]string](l.tab, `(() => {
		const text = (e) => { const c = e.cloneNode(true); c.querySelectorAll(".mark, .hidden").forEach((m) => m.remove()); return c.textContent.trim().replace(/\s+/g, " "); };
		return Object.fromEntries([...document.querySelectorAll("#main section")].map((s) => [
			text(s.querySelector("h2")), [...s.querySelectorAll("p")].map(text).join(" ")])); })()`)
}

// memberState is a member of a quorum as its service knows it.
type memberState struct {
	name          string
	serves, leads bool
}

// inWords is what a page says of a quorum.
func inWords(all []memberState) string {
	serve, leader := 0, "nobody"
	for _, m := range all {
		if m.serves {
			serve++
		}
		if m.leads {
			leader = m.name
		}
	}
	may := "none may be lost"
	if left := serve - (len(all)/2 + 1); left > 0 {
		may = fmt.Sprintf("%d may be lost", left)
	}
	return fmt.Sprintf("%d of %d serve; %s leads; %s.", serve, len(all), leader, may)
}

// etcdSays asks each member of etcd itself.
func (l *pagesLab) etcdSays() ([]memberState, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Second)
	defer cancel()
	c := l.member
	list, err := c.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	var out []memberState
	for _, m := range list.Members {
		state := memberState{name: m.Name}
		asking, cancel := context.WithTimeout(l.t.Context(), time.Second)
		if s, err := c.Status(asking, m.ClientURLs[0]); err == nil {
			state.serves, state.leads = true, s.Leader == m.ID
		}
		cancel()
		out = append(out, state)
	}
	return out, nil
}

// kafkaSays asks the controllers by a client.
func (l *pagesLab) kafkaSays() ([]memberState, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	q, err := l.brokers.quorum(ctx)
	if err != nil {
		return nil, err
	}
	var out []memberState
	for id := range q.voters {
		n := l.brokers.byID(id)
		out = append(out, memberState{name: n.Facts.Name, serves: n.Up() && l.runs(n, "kafka.service"), leads: id == q.leader})
	}
	return out, nil
}

func (l *pagesLab) runs(n *Node, unit string) bool {
	out, _ := n.Exec("systemctl", "is-active", unit)
	return out == "active"
}

// cephJSON is what ceph(8) prints on the first node.
func (l *pagesLab) cephJSON(into any, args ...string) error {
	out, err := l.mons.ceph(l.Node("node-1"), append(args, "--format=json")...)
	if err != nil {
		return err
	}
	i := strings.IndexAny(out, "{[")
	if i < 0 {
		return fmt.Errorf("no JSON: %s", out)
	}
	return json.NewDecoder(strings.NewReader(out[i:])).Decode(into)
}

func (l *pagesLab) cephSays() ([]memberState, error) {
	var q quorumStatus
	if err := l.cephJSON(&q, "quorum_status"); err != nil {
		return nil, err
	}
	var out []memberState
	for _, m := range q.MonMap.Mons {
		out = append(out, memberState{name: m.Name, serves: slices.Contains(q.Names, m.Name), leads: m.Name == q.Leader})
	}
	return out, nil
}

// quorums compares the page with etcd, Kafka and Ceph.
func (l *pagesLab) quorums(serving int) {
	l.t.Helper()
	for service, says := range map[string]func() ([]memberState, error){
		"etcd": l.etcdSays, "Kafka's controllers": l.kafkaSays, "Ceph's monitors": l.cephSays,
	} {
		l.agree(service, func() any { return l.sections()[service] }, func() (any, error) {
			all, err := says()
			if n := len(slices.DeleteFunc(slices.Clone(all), func(m memberState) bool { return !m.serves })); err == nil && n != serving {
				err = fmt.Errorf("%d serve, and not %d", n, serving)
			}
			return inWords(all), err
		})
	}
}

// human is a number of bytes as people read it.
func human(n float64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", n/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", n/1024)
}

// ceph compares the page of Ceph with what ceph(8) prints.
func (l *pagesLab) ceph() {
	l.open("/ceph")
	l.tab.Sees(pagesBound, browser.Says("osd.0"), "the page of Ceph")
	l.agree("health", func() any { return l.column("check", 1) }, func() (any, error) {
		var h healthStatus
		err := l.cephJSON(&h, "health", "detail")
		var out []string
		for _, c := range h.Checks {
			out = append(out, c.Summary.Message)
		}
		return sorted(out), err
	})
	l.agree("OSDs", func() any { return l.column("OSD", 0, 1, 2, 4) }, func() (any, error) {
		var tree struct {
			Nodes []struct {
				Name, Type, Status string
				KB                 float64 `json:"kb"`
				Used               float64 `json:"kb_used"`
				PGs                int
				Reweight           float64
			}
		}
		err := l.cephJSON(&tree, "osd", "df", "tree")
		var out []string
		for _, n := range tree.Nodes {
			if n.Type == "osd" && n.Reweight == 1 {
				out = append(out, line(n.Name, "ok: "+n.Status+", in", human(n.Used*1024)+" of "+human(n.KB*1024), n.PGs))
			}
		}
		return sorted(out), err
	})
	l.agree("pools", func() any { return l.column("pool", 0, 1, 2) }, func() (any, error) {
		var df struct {
			Pools []struct {
				Name  string
				Stats struct {
					Stored float64
					Free   float64 `json:"max_avail"`
				}
			}
		}
		err := l.cephJSON(&df, "df")
		var out []string
		for _, p := range df.Pools {
			out = append(out, line(p.Name, human(p.Stats.Stored), human(p.Stats.Free)))
		}
		return sorted(out), err
	})
	require.Contains(l.t, strings.Join(l.column("pool", 0, 1), "\n"), "measurements | 4.8 MiB", "what the test has put there")
}

// kafka compares the page of Kafka with what the brokers tell a client.
func (l *pagesLab) kafkaPage(t *testing.T) {
	l.open("/kafka")
	l.agree("topics", func() any { return l.column("topic", 0, 1, 2, 3, 4) }, func() (any, error) { return l.topicsSay(t.Context()) })
	l.agree("brokers", func() any { return l.column("broker", 0, 1) }, func() (any, error) {
		m, err := l.brokers.admin.BrokerMetadata(t.Context())
		var out []string
		for _, n := range l.Nodes() {
			state := "critical: down"
			if slices.ContainsFunc(m.Brokers, func(b kadm.BrokerDetail) bool { return b.NodeID == kafka.ID(n.Facts.Name) }) {
				state = "ok: up"
			}
			out = append(out, line(n.Facts.Name, state))
		}
		return sorted(out), err
	})
	l.agree("groups", func() any { return l.column("group", 0, 1, 2, 3) }, func() (any, error) {
		lags, err := l.brokers.admin.Lag(t.Context(), groupOfPages)
		if err != nil {
			return nil, err
		}
		group, behind := lags[groupOfPages], int64(0)
		for _, p := range group.Lag[topicOfPages] {
			behind += p.Lag
		}
		if behind != behindOfPages {
			return nil, fmt.Errorf("the group is %d behind", behind)
		}
		return []string{line(groupOfPages, group.State, topicOfPages, behind)}, group.Error()
	})
}

func (l *pagesLab) topicsSay(ctx context.Context) (any, error) {
	m, err := l.brokers.admin.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for name, d := range m.Topics {
		copies, behind, offline := 0, 0, 0
		for _, p := range d.Partitions {
			copies = max(copies, len(p.Replicas))
			if len(p.ISR) < len(p.Replicas) {
				behind++
			}
			if p.Leader < 0 {
				offline++
			}
		}
		mark := "ok: "
		if offline > 0 {
			mark = "critical: "
		} else if behind > 0 {
			mark = "warning: "
		}
		out = append(out, line(mark+name, len(d.Partitions), copies, behind, offline))
	}
	return sorted(out), nil
}

// kubernetes compares the page of Kubernetes with the objects that the API server has.
func (l *pagesLab) kubernetes() {
	type item struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			Unschedulable bool
			Replicas      int
			Class         string `json:"storageClassName"`
			Resources     struct{ Requests struct{ Storage string } }
		}
		Status struct {
			Phase      string
			Ready      int `json:"readyReplicas"`
			Conditions []struct{ Type, Status, Reason, Message string }
			NodeInfo   struct {
				Version string `json:"kubeletVersion"`
			}
		}
	}
	list := func(path string, row func(item) string) func() (any, error) {
		return func() (any, error) {
			var all struct{ Items []item }
			err := ask(l.masters.api(l.Node("node-1")), http.MethodGet, path, nil, &all)
			var out []string
			for _, i := range all.Items {
				out = append(out, row(i))
			}
			if len(out) == 0 && err == nil {
				err = fmt.Errorf("%s: none", path)
			}
			return sorted(out), err
		}
	}
	l.open("/kubernetes")
	l.agree("nodes of Kubernetes", func() any { return l.column("node", 0, 1, 2, 3) }, list("/api/v1/nodes", func(i item) string {
		var wrong []string
		ready, mark := "Unknown", "warning: "
		for _, c := range i.Status.Conditions {
			if c.Type == "Ready" {
				if ready = c.Status; ready != "True" {
					wrong, mark = append(wrong, c.Reason+": "+c.Message), "critical: "
				}
			}
		}
		for _, c := range i.Status.Conditions {
			if c.Type != "Ready" && c.Status != "False" {
				wrong = append(wrong, c.Type)
			}
		}
		if i.Spec.Unschedulable {
			wrong = append(wrong, "cordoned")
		}
		return line(mark+i.Metadata.Name, ready, i.Status.NodeInfo.Version, strings.Join(wrong, "; "))
	}))
	l.agree("pods", func() any { return l.column("pod", 0, 2, 4) }, list("/api/v1/pods", func(i item) string {
		c := i.Status.Conditions[0]
		return line(i.Metadata.Namespace+"/"+i.Metadata.Name, i.Status.Phase, strings.TrimSpace(c.Reason+": "+c.Message))
	}))
	l.agree("workloads", func() any { return l.column("workload", 0, 1, 2) }, list("/apis/apps/v1/deployments", func(i item) string {
		return line(i.Metadata.Namespace+"/"+i.Metadata.Name, "Deployment", fmt.Sprintf("%d of %d", i.Status.Ready, i.Spec.Replicas))
	}))
	l.agree("volumes", func() any { return l.column("volume", 0, 1, 2, 3, 4) }, list("/api/v1/persistentvolumeclaims", func(i item) string {
		return line(i.Metadata.Namespace+"/"+i.Metadata.Name, "PersistentVolumeClaim", i.Status.Phase, i.Spec.Class, i.Spec.Resources.Requests.Storage)
	}))
	require.Equal(l.t, []string{
		"ok: DaemonSet | 0 | 0", "ok: Job | 0 | 0", "ok: PersistentVolume | 0 | 0", "ok: StatefulSet | 0 | 0",
		"warning: Deployment | 1 | 0", "warning: PersistentVolumeClaim | 1 | 0",
	}, l.column("kind", 0, 1, 2))
}
