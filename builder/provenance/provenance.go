// Package provenance writes where an image comes from: an in-toto Statement v1 (in-toto.io/Statement/v1) with a predicate
// of SLSA Provenance v1 (slsa.dev/spec/v1.0/provenance). It takes hashes that others made, and reads no file.
//
// A statement is not signed here. It names no clock and no machine: the same inputs give the same bytes.
package provenance

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// The names that a consumer looks for. They belong to no host, since spore is run by whoever has it.
const (
	// PredicateType is that of SLSA Provenance v1.
	PredicateType = "https://slsa.dev/provenance/v1"
	// BuildType is what `spore build` does, by the page docs/accountable.md; its number changes with the parameters.
	BuildType = "urn:spore:image-build:1"
	// BuilderID says that the program spore built, on a machine that the statement does not vouch for.
	BuilderID = "urn:spore:builder"
)

// Algorithms of digests (in-toto attestation, spec/v1/digest_set.md), all as lower-case hexadecimal.
const (
	SHA256 = "sha256"
	// DirHash is the hash of the Go command over the hashes of a tree's files (golang.org/x/mod/sumdb/dirhash, Hash1).
	DirHash = "dirHash"
	// Verity is the root hash of a dm-verity tree; it is no name of in-toto's, and verifiers that do not know it ignore it.
	Verity = "dmVerityRootHash"
)

// Resource is something that was built or that something was built from.
type Resource struct {
	Name, URI string
	// Algorithm and Digest are empty for what is only named.
	Algorithm, Digest string
}

// Build is what a statement says.
type Build struct {
	// Subjects are what was built; each has a digest.
	Subjects []Resource
	// Formats are the outputs that were asked for, Configuration the files of the configuration.
	Formats       []string
	Configuration []Resource
	// Signing are the public halves of the keys that signed what machines start.
	Signing []Resource
	// Epoch is SOURCE_DATE_EPOCH in seconds since 1970, 0 where it was not set; BuildTime is the time in the image.
	Epoch, BuildTime int64
	// Inputs are all else that the image was made of.
	Inputs []Resource
	// Version is that of spore, Tool the SHA-256 of its program in hexadecimal.
	Version, Tool string
}

// Write writes the statement as indented JSON.
func Write(w io.Writer, b Build) error {
	s, err := statement(b)
	if err != nil {
		return fmt.Errorf("make the provenance: %w", err)
	}
	text, err := protojson.Marshal(s)
	if err != nil {
		return fmt.Errorf("make the provenance: %w", err)
	}
	// protojson puts blanks in by the hash of the program, so that nobody relies on its bytes; keys have a fixed order.
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	if err := json.Indent(&out, compact.Bytes(), "", " "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(w)
	return err
}

func statement(b Build) (*intoto.Statement, error) {
	external, err := structpb.NewStruct(externalParameters(b))
	if err != nil {
		return nil, err
	}
	internal, err := structpb.NewStruct(map[string]any{"buildTime": float64(b.BuildTime)})
	if err != nil {
		return nil, err
	}
	p := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType: BuildType, ExternalParameters: external, InternalParameters: internal, ResolvedDependencies: descriptors(b.Inputs),
		},
		RunDetails: &slsa.RunDetails{
			Builder: &slsa.Builder{
				Id: BuilderID, Version: map[string]string{"spore": b.Version},
				BuilderDependencies: descriptors([]Resource{{Name: "spore", Algorithm: SHA256, Digest: b.Tool}}),
			},
			Metadata: &slsa.BuildMetadata{InvocationId: invocation(b)},
		},
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	predicate, err := asStruct(p)
	if err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, Subject: descriptors(b.Subjects), PredicateType: PredicateType, Predicate: predicate}
	return s, s.Validate()
}

func asStruct(p *slsa.Provenance) (*structpb.Struct, error) {
	text, err := protojson.Marshal(p)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, protojson.Unmarshal(text, out)
}

func externalParameters(b Build) map[string]any {
	out := map[string]any{"formats": list(b.Formats), "configuration": hashes(b.Configuration)}
	if b.Epoch != 0 {
		out["sourceDateEpoch"] = float64(b.Epoch)
	}
	if len(b.Signing) > 0 {
		out["signing"] = hashes(b.Signing)
	}
	return out
}

func list(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

func hashes(of []Resource) map[string]any {
	out := map[string]any{}
	for _, r := range of {
		out[r.Name] = map[string]any{r.Algorithm: r.Digest}
	}
	return out
}

func descriptors(of []Resource) []*intoto.ResourceDescriptor {
	var out []*intoto.ResourceDescriptor
	for _, r := range of {
		d := &intoto.ResourceDescriptor{Name: r.Name, Uri: r.URI}
		if r.Digest != "" {
			d.Digest = map[string]string{r.Algorithm: r.Digest}
		}
		out = append(out, d)
	}
	return out
}

// invocation names a build by what goes into it: a second run with the same inputs is the same build.
func invocation(b Build) string {
	b.Subjects = nil
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s\n%#v", BuildType, b)).String()
}

// ModuleDigest turns a sum of go.sum (h1:BASE64) into the form that DirHash has.
func ModuleDigest(sum string) (string, error) {
	text, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return "", fmt.Errorf("%q is not a sum of a Go module", sum)
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != 32 {
		return "", fmt.Errorf("%q is not a sum of a Go module: %w", sum, errors.Join(err, errors.New("it is not 32 bytes in base64")))
	}
	return hex.EncodeToString(b), nil
}

// Unique sorts resources by name and URI, and leaves out those that are there already.
func Unique(of []Resource) []Resource {
	byKey := map[string]Resource{}
	for _, r := range of {
		byKey[r.Name+"\n"+r.URI+"\n"+r.Digest] = r
	}
	var out []Resource
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, byKey[key])
	}
	return out
}
