// Package podlogs is the verb logs-pods: the lines that containers of a pod have written on this node, from the files
// of the container runtime (package cri), which root alone may read. It needs no Kubernetes API and no store of logs.
//
// The last lines of each container are put in the order of time. A container has as many files as kubelet keeps; what
// it has removed is not there.
package podlogs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spore/agent/logs/cri"
	"spore/agent/logs/rotated"
	"spore/agent/verbs"
	"spore/cluster/spec"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// Times and bounds.
const (
	// maxKept bounds the lines of a container that are kept until all are read, in bytes; the newest are.
	maxKept = 4 << 20
	// maxContainers is of how many containers the lines are shown.
	maxContainers = 100
	maxUnfinished = 1 << 20
	quantum       = 256 << 10
	// atOnce is how many quanta of a container are read before it is looked at the others: one that writes without end is
	// not the only one.
	atOnce = 64
	// again is how often it is looked for new lines.
	again = time.Second
	// settled is for how long nothing was written to a file that was put aside before it is left.
	settled = rotated.Settle
)

// May says why a caller may not read the lines of pods, by the list of cluster.yaml.
func May(c nodeapi.Caller, rights *spec.LogRights) error {
	list := rights.ForPods()
	if c.Listed(list) {
		return nil
	}
	return fmt.Errorf("the logs of pods are not for this certificate: cluster.yaml (logRights.pods) lets %s read them, "+
		"and admins", strings.Join(list[:min(len(list), 10)], ", "))
}

// Order is the call of the verb for a question.
func Order(q nodeapi.Logs) nodeapi.Order {
	a := map[string]string{"pod": q.Pod, "lines": strconv.Itoa(q.Lines)}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			a[name] = at.UTC().Format(time.RFC3339Nano)
		}
	}
	if q.Grep != "" {
		a["grep"] = q.Grep
	}
	if q.Follow {
		a["follow"] = "yes"
	}
	return nodeapi.Order{Arguments: a}
}

// Show answers with the lines.
func Show(ctx context.Context, r *verbs.Run) (string, error) {
	if err := May(r.By, r.Cluster.LogRights); err != nil {
		return "", err
	}
	q := question{lines: nodeapi.DefaultLines, follow: r.Argument("follow", "") == "yes"}
	var err error
	if q.namespace, q.pod, q.container, err = nodeapi.PodParts(r.Argument("pod", "")); err != nil {
		return "", err
	}
	if text := r.Argument("lines", ""); text != "" {
		if q.lines, err = strconv.Atoi(text); err != nil {
			return "", fmt.Errorf("internal error: %w", err)
		}
	}
	for name, at := range map[string]*time.Time{"since": &q.since, "until": &q.until} {
		if text := r.Argument(name, ""); text != "" {
			if *at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if text := r.Argument("grep", ""); text != "" {
		if q.grep, err = nodeapi.ParseGrep(text); err != nil {
			return "", err
		}
	}
	tree, err := rotated.OpenTree(r.Machine.Root.At(cri.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return "this node has no pods", nil
	}
	if err != nil {
		return "", err
	}
	defer tree.Close()
	s := &search{
		question: q, tree: tree, now: r.Machine.Now, buf: make([]byte, quantum+cri.MaxMessage), budget: cri.NewBudget(maxUnfinished),
	}
	defer s.close()
	return s.run(ctx, r)
}

// question is what is asked for.
type question struct {
	namespace, pod, container string
	lines                     int
	since, until              time.Time
	grep                      *regexp.Regexp
	follow                    bool
}

// search reads files.
type search struct {
	question
	tree   *rotated.Tree
	now    func() time.Time
	buf    []byte
	budget *cri.Budget
	// full says that older lines had no room.
	full bool
	// followed are the containers whose further lines are shown, by their folders.
	followed map[string]*tail
}

// tail reads one container.
type tail struct {
	folder, name string
	pod          cri.Pod
	f            *rotated.Follower
	join         *cri.Joiner[rotated.Position]
	group        int
}

func (s *search) close() {
	for _, t := range s.followed {
		t.f.Close()
	}
}

// run answers.
func (s *search) run(ctx context.Context, r *verbs.Run) (string, error) {
	s.followed = map[string]*tail{}
	folders, err := s.folders()
	if err != nil {
		return "", err
	}
	if len(folders) > maxContainers {
		return "", fmt.Errorf("%d containers have this name; name one: NAMESPACE/POD/CONTAINER", len(folders))
	}
	var all []line
	for _, t := range folders {
		own, err := s.last(ctx, t)
		if err != nil {
			return "", err
		}
		before := len(all) + len(own)
		all = together(s.lines, append(all, own...))
		s.full = s.full || len(all) < min(before, s.lines)
	}
	if s.full {
		if err := r.Say("older lines were left out: these have %d MiB", maxKept>>20); err != nil {
			return "", err
		}
	}
	if err := give(r, all); err != nil {
		return "", err
	}
	for s.follow {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(again):
		}
		if err := s.further(ctx, r); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d lines", len(all)), nil
}

// folders are the containers that are asked for.
func (s *search) folders() ([]*tail, error) {
	pods, err := s.tree.Folders(".")
	if err != nil {
		return nil, fmt.Errorf("look for the pod: %w", err)
	}
	slices.Sort(pods)
	var out []*tail
	for _, folder := range pods {
		pod, ok := cri.ParsePod(folder)
		if !ok || pod.Namespace != s.namespace || pod.Name != s.pod {
			continue
		}
		names, err := s.tree.Folders(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for the containers: %w", err)
		}
		slices.Sort(names)
		for _, name := range names {
			if cri.IsLabel(name) && cmp.Or(s.container, name) == name {
				out = append(out, &tail{folder: folder + "/" + name, name: name, pod: pod})
			}
		}
	}
	return out, nil
}

func (s *search) files(t *tail) ([]rotated.File, error) {
	files, err := s.tree.Files(t.folder, func(name string) bool { _, ok := cri.ParseFile(name); return ok })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for the logs: %w", err)
	}
	parsed := map[string]cri.File{}
	for i, file := range files {
		f, _ := cri.ParseFile(file.Name)
		parsed[file.Name], files[i].Group = f, f.Restart
	}
	slices.SortFunc(files, func(a, b rotated.File) int { return cri.Compare(parsed[a.Name], parsed[b.Name]) })
	return files, nil
}

// begin reads files of a container from their beginning, again where they were turned over meanwhile.
func (s *search) begin(t *tail, files []rotated.File) {
	if t.f != nil {
		t.f.Close()
		t.join.Drop()
	}
	t.f, t.join = rotated.Follow(s.tree, nil), cri.NewJoiner[rotated.Position](s.budget)
	t.f.MaxLine, t.f.Now, t.f.Settle = cri.MaxMessage, s.now, 0
	t.f.See(files)
}

// looks is how often the files of a container are looked for that are turned over meanwhile.
const looks = 3

// last reads the last lines of a container.
func (s *search) last(ctx context.Context, t *tail) (found []line, err error) {
	for range looks {
		var again bool
		if found, again, err = s.newestOf(ctx, t); err != nil || !again {
			break
		}
	}
	return found, err
}

// newestOf reads the newest file of a container first, and older ones until there are enough lines. again says that a
// file was turned over meanwhile.
func (s *search) newestOf(ctx context.Context, t *tail) (found []line, again bool, err error) {
	files, err := s.files(t)
	if err != nil {
		return nil, false, err
	}
	for i, file := range slices.Backward(files) {
		older := i < len(files)-1
		if older && (len(found) >= s.lines || s.isBefore(file)) {
			break
		}
		if older && files[i+1].Name == file.Name+".gz" {
			continue // The two say the same.
		}
		s.begin(t, files[i:i+1])
		ring := newest{most: s.lines}
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return nil, false, err
			}
			more = t.f.Read(s.buf, quantum, func(l rotated.Line) { s.line(t, l, ring.add) })
		}
		again = again || t.f.Waits()
		if older || !s.follow {
			s.flush(t, ring.add)
			t.f.Close()
		} else {
			t.f.Settle, s.followed[t.folder] = settled, t
		}
		all := append(slices.Clone(ring.lines), found...)
		found = together(s.lines, all)
		if len(found) < min(len(all), s.lines) {
			s.full = true
			break
		}
		if older || !s.follow {
			continue
		}
		// The older ones are read by another one.
		t = &tail{folder: t.folder, name: t.name, pod: t.pod}
	}
	if len(files) == 0 && s.follow {
		s.begin(t, nil)
		t.f.Settle, s.followed[t.folder] = settled, t
	}
	return found, again, nil
}

// isBefore tells whether a file has nothing that was asked for: nothing was written to it since.
func (s *search) isBefore(file rotated.File) bool {
	return !s.since.IsZero() && !strings.HasSuffix(file.Name, ".gz") && file.Changed.Before(s.since)
}

// further shows what was written meanwhile, also by containers that have started meanwhile.
func (s *search) further(ctx context.Context, r *verbs.Run) error {
	folders, err := s.folders()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, t := range folders {
		there[t.folder] = true
		if s.followed[t.folder] == nil && len(s.followed) < maxContainers {
			s.begin(t, nil)
			t.f.Settle, s.followed[t.folder] = settled, t
		}
	}
	var out []line
	size := 0
	for folder, t := range s.followed {
		files, err := s.files(t)
		if err != nil {
			return err
		}
		t.f.See(files)
		more := true
		for n := 0; more && n < atOnce && size < maxKept; n++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			more = t.f.Read(s.buf, quantum, func(l rotated.Line) {
				s.line(t, l, func(l line) { out, size = append(out, l), size+l.size() })
			})
		}
		if !there[folder] && t.f.Done() {
			t.f.Close()
			delete(s.followed, folder)
		}
	}
	slices.SortStableFunc(out, func(a, b line) int { return a.at.Compare(b.at) })
	return give(r, out)
}

// line takes a line of a container; what was asked for is added.
func (s *search) line(t *tail, l rotated.Line, add func(line)) {
	if l.Group != t.group {
		s.flush(t, add)
		t.group = l.Group
	}
	parsed, err := cri.Parse(l.Data)
	if err != nil {
		return
	}
	m, _, whole := t.join.Add(parsed, l.Start)
	if !whole {
		return
	}
	m.Cut += l.Cut
	s.message(t, m, add)
}

func (s *search) flush(t *tail, add func(line)) {
	for {
		m, _, some := t.join.Flush()
		if !some {
			return
		}
		s.message(t, m, add)
	}
}

func (s *search) message(t *tail, m cri.Message, add func(line)) {
	text := cri.Trim(m.Text)
	switch {
	case !s.since.IsZero() && m.Time.Before(s.since), !s.until.IsZero() && m.Time.After(s.until),
		s.grep != nil && !s.grep.Match(text):
		return
	}
	add(line{at: m.Time, of: t, stream: m.Stream, text: bytes.Clone(text), cut: m.Cut})
}

// line is a line of the answer.
type line struct {
	at     time.Time
	of     *tail
	stream string
	text   []byte
	cut    int64
}

// size is about what a line takes, in bytes.
func (l line) size() int { return len(l.text) + 200 }

// newest keeps the last lines.
type newest struct {
	most  int
	lines []line
	size  int
}

func (n *newest) add(l line) {
	n.lines, n.size = append(n.lines, l), n.size+l.size()
	drop := 0
	for len(n.lines)-drop > n.most || n.size > maxKept && drop < len(n.lines) {
		n.size -= n.lines[drop].size()
		n.lines[drop] = line{}
		drop++
	}
	n.lines = n.lines[drop:]
}

// together are the newest of lines, in the order of time.
func together(most int, lines []line) []line {
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	n := newest{most: most}
	for _, l := range lines {
		n.add(l)
	}
	return n.lines
}

// entry is an entry as journalctl(1) makes it with --output=json: a text that is not UTF-8 is an array of its bytes.
type entry struct {
	Time       string `json:"__REALTIME_TIMESTAMP"`
	Message    any    `json:"MESSAGE"`
	Identifier string `json:"SYSLOG_IDENTIFIER"`
	Source     string `json:"_SPORE_SOURCE"`
	Namespace  string `json:"KUBERNETES_NAMESPACE"`
	Pod        string `json:"KUBERNETES_POD"`
	Container  string `json:"KUBERNETES_CONTAINER"`
	Stream     string `json:"KUBERNETES_STREAM"`
	Cut        string `json:"_SPORE_CUT,omitempty"`
}

func (l line) entry() entry {
	e := entry{
		Time: strconv.FormatInt(l.at.UnixMicro(), 10), Message: string(l.text),
		Identifier: l.of.pod.Name + "/" + l.of.name, Source: machine.LogPod,
		Namespace: l.of.pod.Namespace, Pod: l.of.pod.Name, Container: l.of.name, Stream: l.stream,
	}
	if l.cut > 0 {
		e.Cut = strconv.FormatInt(l.cut, 10)
	}
	if !utf8.Valid(l.text) {
		numbers := make([]int, len(l.text))
		for i, c := range l.text {
			numbers[i] = int(c)
		}
		e.Message = numbers
	}
	return e
}

// give gives lines to the caller, some at a time.
func give(r *verbs.Run, lines []line) error {
	for part := range slices.Chunk(lines, 200) {
		out := make([]entry, 0, len(part))
		for _, l := range part {
			out = append(out, l.entry())
		}
		if err := verbs.Results(r, out); err != nil {
			return err
		}
	}
	return nil
}
