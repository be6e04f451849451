package audit

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/logs/send"
	"spore/wire/journalexport"
)

// Fields of an entry.
const (
	User      = "AUDIT_USER"
	As        = "AUDIT_AS"
	Verb      = "AUDIT_VERB"
	Resource  = "AUDIT_RESOURCE"
	Namespace = "AUDIT_NAMESPACE"
	Name      = "AUDIT_NAME"
	Code      = "AUDIT_CODE"
	ID        = "AUDIT_ID"
	// Event is the whole record, without what may be secret.
	Event = "AUDIT_EVENT"
)

// event is what is read of a record (k8s.io/apiserver/pkg/apis/audit/v1, Event).
type event struct {
	AuditID    string `json:"auditID"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       person `json:"user"`
	As         person `json:"impersonatedUser"`
	Ref        struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Group       string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Stage    time.Time `json:"stageTimestamp"`
}

type person struct {
	Name string `json:"username"`
}

// resource is what was asked for, such as pods/exec or deployments.apps; the path of everything else.
func (e event) resource() string {
	if e.Ref.Resource == "" {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		return path
	}
	out := e.Ref.Resource
	if e.Ref.Group != "" {
		out += "." + e.Ref.Group
	}
	if e.Ref.Subresource != "" {
		out += "/" + e.Ref.Subresource
	}
	return out
}

// message says in a line who did what.
func (e event) message() string {
	words := []string{e.User.Name}
	if e.As.Name != "" {
		words = append(words, "as "+e.As.Name)
	}
	words = append(words, e.Verb, e.resource())
	if object := strings.Trim(e.Ref.Namespace+"/"+e.Ref.Name, "/"); object != "" {
		words = append(words, object)
	}
	if e.Status.Code != 0 {
		words = append(words, strconv.Itoa(e.Status.Code))
	}
	return strings.Join(words, " ")
}

// maxObjects bounds a record whose objects are kept, in bytes. An entry has room for 64 KiB of a record, and what
// somebody makes of a longer one fills the memory.
const maxObjects = 256 << 10

// Parse makes an entry of a record, a line of the file; cut is how many bytes of the line are missing. The times of a
// record stand behind its objects: one that is cut has the time near, that of the record before it. false is a line
// that is no record.
func Parse(line []byte, cut int64, cursor string, near time.Time) (journalexport.Entry, bool) {
	var e event
	head, ok := line, true
	if cut > 0 || len(line) > maxObjects {
		line = bytes.TrimSpace(line)
		if head, ok = before(line); !ok {
			return nil, false
		}
	}
	whole := line
	if cut > 0 {
		whole = head
	}
	if err := json.Unmarshal(whole, &e); err != nil || e.AuditID == "" {
		return nil, false
	}
	at := e.Stage
	if at.IsZero() {
		at = e.Received
	}
	if at.IsZero() && cut > 0 {
		at = near
	}
	if at.Year() < 1970 || at.Year() > 2200 {
		return nil, false
	}
	if len(head) < len(line) {
		cut += int64(len(line) - len(head) + 1)
	}
	text, ok := withoutSecrets(head, e)
	if !ok {
		return nil, false
	}
	var out journalexport.Entry
	field := func(name, value string) {
		if value == "" {
			return
		}
		kept := value[:min(len(value), journalexport.MaxValue)]
		cut += int64(len(value) - len(kept))
		out = append(out, journalexport.Field{Name: name, Value: []byte(kept)})
	}
	field(send.CursorField, cursor)
	field(send.TimeField, strconv.FormatInt(at.UnixMicro(), 10))
	field("MESSAGE", e.message())
	field(send.SourceField, send.Audit)
	field(User, e.User.Name)
	field(As, e.As.Name)
	field(Verb, e.Verb)
	field(Resource, e.resource())
	field(Namespace, e.Ref.Namespace)
	field(Name, e.Ref.Name)
	if e.Status.Code != 0 {
		field(Code, strconv.Itoa(e.Status.Code))
	}
	field(ID, e.AuditID)
	field(Event, string(text))
	if cut > 0 {
		field(journalexport.Cut, strconv.FormatInt(cut, 10))
	}
	return out, true
}

// before is a record that was cut off, or is long, up to its objects, as JSON.
func before(line []byte) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	end := int64(0)
	for d.More() {
		key, err := d.Token()
		if name, ok := key.(string); err != nil || !ok || isObject(name) {
			break
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			break
		}
		end = d.InputOffset()
	}
	if end == 0 {
		return nil, false
	}
	return append(slices.Clone(line[:end]), '}'), true
}

// isObject tells whether a field is one of those with what was written, or answered. Names of fields have any case in
// Go's encoding/json.
func isObject(key string) bool {
	return strings.EqualFold(key, "requestObject") || strings.EqualFold(key, "responseObject")
}

// parameters are those of the API whose values say nothing that is secret (k8s.io/apimachinery/pkg/apis/meta/v1, and
// PodLogOptions, PodExecOptions of k8s.io/api/core/v1). A command, or what a proxy is asked for, may have a password.
var parameters = []string{
	"allowWatchBookmarks", "container", "dryRun", "fieldManager", "fieldSelector", "fieldValidation", "follow", "force",
	"gracePeriodSeconds", "includeUninitialized", "labelSelector", "limit", "limitBytes", "orphanDependents", "ports",
	"pretty", "previous", "propagationPolicy", "resourceVersion", "resourceVersionMatch", "sendInitialEvents",
	"sinceSeconds", "sinceTime", "stderr", "stdin", "stdout", "tailLines", "timeout", "timeoutSeconds", "timestamps", "tty",
	"verbose", "watch",
}

// removed stands for a value that may be secret.
const removed = "(removed)"

// withoutSecrets is a record without values that may be secret. The policy of the cluster leaves out the content of
// Secrets, ConfigMaps and tokens (services/kubernetes/node); what is left is what people write into other objects.
func withoutSecrets(line []byte, e event) ([]byte, bool) {
	query := strings.Contains(e.RequestURI, "?")
	if !query && !bytes.Contains(line, []byte(`Object"`)) {
		return line, true
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return nil, false
	}
	if query {
		all["requestURI"] = cleanURI(e.RequestURI)
	}
	for key, value := range all {
		if isObject(key) {
			all[key] = clean(key, value)
		}
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	if err := to.Encode(all); err != nil {
		return nil, false
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), true
}

// cleanURI removes the values of parameters that are not known.
func cleanURI(uri string) string {
	path, query, _ := strings.Cut(uri, "?")
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, has := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err != nil || !slices.Contains(parameters, plain) {
			value = removed
		}
		if has {
			name += "=" + value
		} else if value == removed {
			name = removed // It may be a token alone.
		}
		out = append(out, name)
	}
	return path + "?" + strings.Join(out, "&")
}

// secretNames are in names of values that are likely secret.
var secretNames = []string{
	"passw", "passphrase", "secret", "token", "credential", "apikey", "api-key", "api_key",
	"privatekey", "private-key", "private_key", "accesskey", "access-key", "access_key", "authorization", "cookie", "bearer",
}

// isSecretName tells so. What ends with Name names an object, such as secretName.
func isSecretName(key string) bool {
	lower := strings.ToLower(key)
	is := func(part string) bool { return strings.Contains(lower, part) }
	return !strings.HasSuffix(key, "Name") && slices.ContainsFunc(secretNames, is)
}

// opaque are fields of objects that hold whatever somebody wrote: of Secrets and ConfigMaps, of the value of an
// environment variable, of commands and of the object as it was applied.
var opaque = []string{
	"data", "stringData", "binaryData", "value", "command", "args", "kubectl.kubernetes.io/last-applied-configuration",
}

// clean removes values that may be secret from an object.
func clean(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if isOpaque(key) {
			for name := range v {
				v[name] = removed
			}
			return v
		}
		for name, value := range v {
			v[name] = clean(name, value)
		}
		return v
	case []any:
		if isOpaque(key) {
			return removed
		}
		for i, value := range v {
			v[i] = clean(key, value)
		}
		return v
	case string:
		if v != "" && (isOpaque(key) || isSecretName(key)) {
			return removed
		}
	case json.Number:
		if isOpaque(key) || isSecretName(key) {
			return removed
		}
	}
	return v
}

func isOpaque(key string) bool {
	return slices.ContainsFunc(opaque, func(name string) bool { return strings.EqualFold(name, key) })
}
