package applyset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"spore/services/kubernetes/kubeapi"
)

// Configuration says which objects a master has, and how new they are.
//
// Which of two is newer is said by the numbers of the updates that brought them. What came with an image has no number
// and is older than what was pushed: a master may have been flashed anew with the image of the first day. Of two that
// came with images the one that was in effect before is the older; an empty one is never the newer.
type Configuration struct {
	// Hash is of the objects.
	Hash string `json:"hash"`
	// Serial is the number of the update that brought the configuration; 0 where an image did.
	Serial uint64 `json:"serial,omitempty"`
}

// record is who acts, kept in the parent.
type record struct {
	Holder string `json:"holder"`
	Configuration
	// Instead is the newest configuration that was in effect where an older one is now, since nobody who has the newer
	// was heard of; its hash is empty where nobody knows which it was. Nothing is removed then.
	Instead *Configuration `json:"instead,omitempty"`
	// History has the hashes that were in effect before, the last one last.
	History []string `json:"history,omitempty"`
	// Beats counts how often the holder has said that it acts.
	Beats uint64 `json:"beats"`
}

// maxHistory is how many former configurations are known.
const maxHistory = 32

// recordKey is where the record lies in the parent's data.
const recordKey = "record"

// parent is the set's parent as it was read or written last.
type parent struct {
	version    string
	record     record
	kinds      []string
	namespaces []string
}

// wire is the parent in the API.
type wire struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// newer tells whether a configuration is newer than the one of the record. empty is that it has no objects.
func (c Configuration) newer(r record, empty bool) bool {
	switch {
	case c.Serial != r.Serial:
		return c.Serial > r.Serial
	case empty && c.Serial == 0:
		return false
	case r.Instead != nil && r.Instead.Hash == c.Hash:
		return true
	}
	return !slices.Contains(r.History, c.Hash)
}

// turn reads the parent and tells whether this master acts; it has taken its turn then, or kept it. done is that there
// is nothing to do any more.
func (k *Keeper) turn(ctx context.Context) (acts, done bool, err error) {
	there, err := k.readParent(ctx)
	if err != nil {
		// While the API is away no master can say that it acts.
		k.seen = k.now()
		return false, false, err
	}
	switch {
	case there == nil && k.parent == nil && len(k.Objects) == 0:
		return false, true, nil
	case there == nil && k.parent == nil:
		return true, false, k.take(ctx, false)
	case there == nil:
		// Somebody has deleted it. What it said last still counts, or an older configuration could take the set.
		known := *k.parent
		known.version = ""
		there = &known
	}
	if k.parent == nil || k.parent.version != there.version {
		k.seen = k.now()
	}
	k.parent = there
	r, quiet := there.record, k.now().Sub(k.seen)
	same := r.Hash == k.Configuration.Hash
	switch {
	case same && len(k.Objects) == 0 && len(there.kinds) == 0:
		return false, true, nil
	case same && k.Configuration.Serial > r.Serial && (r.Serial == 0 || r.Instead != nil):
		return true, false, k.take(ctx, false) // It was pushed meanwhile, and counts as that.
	case same && r.Holder == k.Node:
		return true, false, k.beat(ctx)
	case same && quiet >= k.slow(silent):
		return true, false, k.take(ctx, false)
	case !same && k.Configuration.newer(r, len(k.Objects) == 0):
		return true, false, k.take(ctx, false)
	case !same && (quiet >= k.slow(gone) || k.Alone && r.Holder == k.Node):
		return true, false, k.take(ctx, true)
	}
	return false, false, nil
}

func (k *Keeper) readParent(ctx context.Context) (*parent, error) {
	var w wire
	if err := k.get(ctx, parentPath, &w); kubeapi.IsStatus(err, http.StatusNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read who applies: %w", err)
	}
	marks := w.Metadata.Annotations
	p := &parent{
		version: w.Metadata.ResourceVersion, kinds: words(marks[kindsAnnotation]), namespaces: words(marks[namespacesAnnotation]),
	}
	// A record that a person has spoilt is none: whoever comes first takes it.
	_ = json.Unmarshal([]byte(w.Data[recordKey]), &p.record)
	return p, nil
}

// words are those of a list with commas.
func words(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(w string) bool { return w == "" })
}

// take makes this master the one that acts, with its own configuration. All that it may apply is in the parent's lists
// before. older is that a newer configuration is in effect, of which nobody was heard.
func (k *Keeper) take(ctx context.Context, older bool) error {
	former := k.parent
	next := &parent{record: record{Holder: k.Node, Configuration: k.Configuration, Instead: &Configuration{}}}
	if former != nil {
		next.version, next.kinds, next.namespaces = former.version, former.kinds, former.namespaces
		next.record.Beats, next.record.History = former.record.Beats, history(former.record, k.Configuration.Hash)
		next.record.Instead = k.instead(former.record, older)
		if former.record.Hash == k.Configuration.Hash {
			next.record.Serial = max(next.record.Serial, former.record.Serial)
		}
	}
	kinds, namespaces := k.wanted()
	next.kinds, next.namespaces = union(next.kinds, kinds), union(next.namespaces, namespaces)
	clear(k.applied) // another master may have changed anything
	k.next, k.retry = time.Time{}, firstRetry
	said := fmt.Sprintf("manifests: this master applies them (%d objects)", len(k.Objects))
	if newest := next.record.Instead; newest != nil && newest.Hash != "" {
		said += ", and removes nothing: a newer configuration was in effect"
	}
	k.Say(said)
	return k.writeParent(ctx, next)
}

// instead is the newest configuration that this master stands in for with its own; nil when none is newer.
func (k *Keeper) instead(former record, older bool) *Configuration {
	newest := former.Instead
	switch c := k.Configuration; {
	case former.Holder == "":
		return &Configuration{} // A person has spoilt the record.
	case older && (newest == nil || newest.Hash == ""):
		return &former.Configuration
	case newest == nil, c.Hash == newest.Hash:
		return nil
	case older, c.Hash == former.Hash && c.Serial <= former.Serial:
		return newest
	case c.newer(record{Configuration: *newest, History: former.History}, len(k.Objects) == 0):
		return nil
	}
	return newest
}

// history are the hashes before the next one.
func history(r record, next string) []string {
	out := append(slices.Clone(r.History), r.Hash)
	out = slices.DeleteFunc(out, func(h string) bool { return h == next || h == "" })
	return out[max(0, len(out)-maxHistory):]
}

// beat says that this master still acts, when it is time.
func (k *Keeper) beat(ctx context.Context) error {
	if k.parent.version != "" && k.now().Sub(k.written) < k.slow(beat)-time.Second {
		return nil
	}
	return k.confirm(ctx)
}

// confirm says that this master still acts. It fails with errLost when another one does.
func (k *Keeper) confirm(ctx context.Context) error {
	next := *k.parent
	return k.writeParent(ctx, &next)
}

// writeParent replaces the parent that was read last. It fails with errLost when another master was faster.
func (k *Keeper) writeParent(ctx context.Context, p *parent) error {
	p.record.Beats++
	text, err := json.Marshal(p.record)
	if err != nil {
		return fmt.Errorf("internal error: record of the masters: %w", err)
	}
	w := wire{APIVersion: "v1", Kind: "ConfigMap", Data: map[string]string{recordKey: string(text)}}
	w.Metadata.Name, w.Metadata.ResourceVersion = parentName, p.version
	w.Metadata.Labels = map[string]string{idLabel: ID()}
	w.Metadata.Annotations = map[string]string{
		toolingAnnotation: tooling, kindsAnnotation: strings.Join(p.kinds, ","),
		namespacesAnnotation: strings.Join(p.namespaces, ","),
	}
	r := kubeapi.Call{
		Method: http.MethodPut, Path: parentPath + "?fieldManager=" + Manager, Type: "application/json", Body: w, Into: &w,
	}
	if p.version == "" {
		r.Method, r.Path = http.MethodPost, collectionPath+"?fieldManager="+Manager
	}
	err = k.API.Do(ctx, r)
	if kubeapi.IsStatus(err, http.StatusConflict) || kubeapi.IsStatus(err, http.StatusNotFound) {
		return errLost
	}
	if err != nil {
		return fmt.Errorf("write who applies: %w", err)
	}
	p.version = w.Metadata.ResourceVersion
	k.parent, k.written, k.seen = p, k.now(), k.now()
	return nil
}

// wanted are the kinds and the namespaces of the objects, in the form of the parent's annotations.
func (k *Keeper) wanted() (kinds, namespaces []string) {
	sets := [2]map[string]bool{{}, {}}
	for _, o := range k.Objects {
		m := memberOf(o.Object)
		sets[0][m.groupKind()] = true
		if m.namespace != "" && m.namespace != parentNamespace {
			sets[1][m.namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(sets[0])), slices.Sorted(maps.Keys(sets[1]))
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// shrink leaves in the parent's lists what is there in the end.
func (k *Keeper) shrink(ctx context.Context, o outcome) error {
	kinds, namespaces := k.wanted()
	kinds = union(kinds, o.unlisted)
	for _, m := range slices.Concat(slices.Collect(maps.Keys(o.left)), slices.Collect(maps.Keys(o.stay))) {
		kinds = union(kinds, []string{m.groupKind()})
		if m.namespace != "" && m.namespace != parentNamespace {
			namespaces = union(namespaces, []string{m.namespace})
		}
	}
	if slices.Equal(kinds, k.parent.kinds) && slices.Equal(namespaces, k.parent.namespaces) {
		return nil
	}
	next := *k.parent
	next.kinds, next.namespaces = kinds, namespaces
	return k.writeParent(ctx, &next)
}
