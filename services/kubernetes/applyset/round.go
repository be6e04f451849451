package applyset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services/kubernetes/kubeapi"
)

// outcome is how a round has ended.
type outcome struct {
	problems []Problem
	// left are members that are there yet and are to go, unlisted the kinds of which nobody knows.
	left     map[member]bool
	unlisted []string
	// stay are members that the folder does not have, and that stay all the same.
	stay map[member]bool
	// stays are the members that would stay without the folder, by their names, and why.
	stays map[string]string
}

// settled is that nothing is to be tried again soon.
func (o outcome) settled() bool { return len(o.problems)+len(o.left) == 0 }

// round compares all members with the folder, applies what differs, and prunes what is not in it any more. Its error is
// that nothing could be done; what could not be done to single objects are the problems.
func (k *Keeper) round(ctx context.Context) (outcome, error) {
	k.kinds.forget()
	out := outcome{left: map[member]bool{}, stay: map[member]bool{}, stays: map[string]string{}}
	there, err := k.members(ctx, &out)
	if err != nil {
		return out, err
	}
	for m, is := range there {
		out.staying(m, &is.object)
	}
	if err := k.applyAll(ctx, there, &out); err != nil {
		return out, err
	}
	if err := k.prune(ctx, there, &out); err != nil {
		return out, err
	}
	return out, k.shrink(ctx, out)
}

// found is a member as the API server has it.
type found struct {
	resource resource
	object   object
	// defines is the kind that it is the definition of, as KEP-3659 writes it; empty for what is none.
	defines string
}

// members lists all objects with our label, of all kinds that were ever applied. A kind that the API server cannot
// list, since the server behind it is away, keeps no other from being kept.
func (k *Keeper) members(ctx context.Context, out *outcome) (map[member]found, error) {
	there := map[member]found{}
	for _, groupKind := range k.parent.kinds {
		err := k.membersOf(ctx, groupKind, there)
		var status *kubeapi.StatusError
		if err != nil && !errors.As(err, &status) {
			return nil, fmt.Errorf("list the objects of the kind %s: %w", groupKind, err)
		}
		if err != nil {
			out.unlisted = append(out.unlisted, groupKind)
			why := "its objects cannot be listed: " + status.Error()
			out.problems = append(out.problems, Problem{Object: groupKind, Reason: why})
		}
	}
	return there, nil
}

func (k *Keeper) membersOf(ctx context.Context, groupKind string, there map[member]found) error {
	kind, group, _ := strings.Cut(groupKind, ".")
	r, ok, err := k.kinds.preferred(ctx, group, kind)
	if err != nil || !ok {
		return err // With its kind an object is gone, too.
	}
	err = k.API.List(ctx, r.collection(), partOfLabel+"="+ID(), func(data json.RawMessage) error {
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			return err
		}
		m := member{group, kind, o.Metadata.Namespace, o.Metadata.Name}
		is := found{resource: r, object: o}
		is.defines = kindIfDefinition(m, data)
		there[m] = is
		return nil
	})
	if kubeapi.IsStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// applyAll applies what is not there as it was applied last.
func (k *Keeper) applyAll(ctx context.Context, there map[member]found, out *outcome) error {
	objects := slices.Clone(k.Objects)
	slices.SortStableFunc(objects, func(a, b facts.Manifest) int {
		return cmp.Compare(memberOf(a.Object).order(), memberOf(b.Object).order())
	})
	for _, o := range objects {
		m := memberOf(o.Object)
		is, isMember := there[m]
		if is.object.Metadata.DeletionTimestamp != "" {
			out.left[m] = true // Somebody has deleted it: it is made anew when it is gone.
			continue
		}
		now, ours := is.object.mark()
		if last, known := k.applied[m]; known && ours && now == last {
			continue
		}
		if err := k.beat(ctx); err != nil {
			return err
		}
		var known *object
		if isMember {
			known = &is.object
		}
		if err := k.apply(ctx, m, o, known, out); err != nil {
			var said reason
			if !errors.As(err, &said) {
				return err // The API server is away: so it would be for all others.
			}
			delete(k.applied, m)
			out.problems = append(out.problems, Problem{File: o.File, Line: o.Line, Object: m.String(), Reason: string(said)})
		}
	}
	return nil
}

// reason is why one object cannot be applied or removed, which says nothing of others.
type reason string

func (r reason) Error() string { return string(r) }

// apply applies one object, and remembers what the server made of it. known is what is there; nil when it is not among
// the members.
func (k *Keeper) apply(ctx context.Context, m member, o facts.Manifest, known *object, out *outcome) error {
	version, _ := o.Object["apiVersion"].(string)
	r, ok, err := k.kinds.find(ctx, version, m.kind)
	switch {
	case err != nil:
		return inWords(err)
	case !ok:
		// What was asked for before a definition of this round was applied is asked again in the next.
		return reasonf("the API server does not serve the kind %s of %s", m.kind, version)
	case r.namespaced && m.namespace == "":
		return reasonf("a %s lies in a namespace; add metadata.namespace", m.kind)
	case !r.namespaced && m.namespace != "":
		return reasonf("a %s lies in no namespace; remove metadata.namespace", m.kind)
	}
	if known == nil {
		if known, err = k.before(ctx, r.object(m)); err != nil {
			return err
		}
	}
	q := url.Values{"fieldManager": {Manager}, "force": {"true"}, "fieldValidation": {"Strict"}}
	var answer object
	err = k.API.Do(ctx, kubeapi.Call{
		Method: http.MethodPatch, Path: r.object(m) + "?" + q.Encode(), Type: "application/apply-patch+yaml",
		Body: labelled(o, known != nil && known.found()), Into: &answer,
	})
	if err != nil {
		return inWords(err)
	}
	k.applied[m], _ = answer.mark()
	out.staying(m, &answer)
	if m.order() == orderDefinition {
		k.kinds.forget()
	}
	return nil
}

// before reads an object that is not among the members, before it is applied; nil when there is none. One that another
// set has is refused.
func (k *Keeper) before(ctx context.Context, path string) (*object, error) {
	var o object
	if err := k.get(ctx, path, &o); kubeapi.IsStatus(err, http.StatusNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, inWords(err)
	}
	if set := o.Metadata.Labels[partOfLabel]; set != "" && set != ID() {
		return nil, reasonf("it belongs to another set (its label %s is %s); remove it there, or from manifests/",
			partOfLabel, set)
	}
	return &o, nil
}

func reasonf(format string, args ...any) error { return reason(fmt.Sprintf(format, args...)) }

// inWords makes a reason of an answer of the API server, without the method and path before its words.
func inWords(err error) error {
	var status *kubeapi.StatusError
	if errors.As(err, &status) {
		return reason(status.Error())
	}
	return err
}

// labelled is an object with our label, where a person finds it, and whether it was there before.
func labelled(o facts.Manifest, found bool) map[string]any {
	out := maps.Clone(o.Object)
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["labels"] = with(metadata["labels"], partOfLabel, ID())
	metadata["annotations"] = with(metadata["annotations"], fileAnnotation, o.File)
	if found {
		metadata["annotations"] = with(metadata["annotations"], foundAnnotation, "true")
	}
	out["metadata"] = metadata
	return out
}

func with(v any, key string, value any) map[string]any {
	m, _ := v.(map[string]any)
	out := maps.Clone(m)
	if out == nil {
		out = map[string]any{}
	}
	out[key] = value
	return out
}

// prune removes the members that the folder does not have.
func (k *Keeper) prune(ctx context.Context, there map[member]found, out *outcome) error {
	wanted := map[member]bool{}
	for _, o := range k.Objects {
		wanted[memberOf(o.Object)] = true
	}
	held := hold(there, wanted)
	// Another master may have taken its turn since the list, and have brought what is in it.
	still := k.confirm
	for _, m := range lastFirst(there) {
		is := there[m]
		if _, ours := is.object.mark(); wanted[m] || !ours {
			continue
		}
		if is.object.Metadata.DeletionTimestamp != "" {
			out.left[m] = true // It is going, and somebody holds it.
			continue
		}
		if k.parent.record.Instead != nil {
			out.stay[m] = true
			continue
		}
		if why := held[m]; why != "" {
			out.stay[m] = true
			out.problems = append(out.problems, Problem{Object: m.String(), Reason: why})
			continue
		}
		if m.holds() && len(out.unlisted) > 0 {
			out.left[m] = true // Something that is to stay may lie in it.
			continue
		}
		if is.object.stays() != "" && m.lies(there, held) {
			out.stay[m] = true // Without our label nobody would know what lies there.
			continue
		}
		if err := still(ctx); err != nil {
			return err
		}
		still = k.beat
		if err := k.remove(ctx, m, is); err != nil {
			var said reason
			if !errors.As(err, &said) {
				return err
			}
			why := "it was taken out of manifests/ and cannot be removed: " + string(said)
			out.problems = append(out.problems, Problem{Object: m.String(), Reason: why})
		}
		delete(k.applied, m)
		out.left[m] = true // The next round sees whether it is gone: a namespace takes its time.
	}
	return nil
}

// lastFirst are members in the order in which they are pruned: what others lie in goes last.
func lastFirst(there map[member]found) []member {
	return slices.SortedFunc(maps.Keys(there), func(a, b member) int {
		return cmp.Or(cmp.Compare(b.order(), a.order()), cmp.Compare(a.String(), b.String()))
	})
}

// remove deletes a member, or lets it go where it says that it is to stay.
func (k *Keeper) remove(ctx context.Context, m member, is found) error {
	said := "removed %s, which the folder does not have any more"
	only := map[string]any{"uid": is.object.Metadata.UID, "resourceVersion": is.object.Metadata.ResourceVersion}
	r := kubeapi.Call{
		Method: http.MethodDelete, Path: is.resource.object(m), Type: "application/json",
		Body: map[string]any{"propagationPolicy": "Background", "preconditions": only},
	}
	if why := is.object.stays(); why != "" {
		said = "the folder does not have %s any more, which stays, since it " + why
		r = kubeapi.Call{
			Method: http.MethodPatch, Path: is.resource.object(m) + "?fieldManager=" + Manager,
			Type: "application/merge-patch+json",
			Body: map[string]any{"metadata": with(only, "labels", map[string]any{partOfLabel: nil})},
		}
	}
	err := k.API.Do(ctx, r)
	if kubeapi.IsStatus(err, http.StatusNotFound) || kubeapi.IsStatus(err, http.StatusConflict) {
		return nil // it is gone, or not what was listed by now: the next round looks
	}
	if err == nil {
		k.Say(fmt.Sprintf("manifests: "+said, m))
	}
	return inWords(err)
}
