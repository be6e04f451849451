package provenance

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

var digest = strings.Repeat("ab", 32)

func sample() Build {
	return Build{
		Subjects:      []Resource{{Name: "spore.efi", Algorithm: SHA256, Digest: digest}, {Name: "root", Algorithm: Verity, Digest: digest}},
		Formats:       []string{"disk", "uki"},
		Configuration: []Resource{{Name: "cluster.yaml", Algorithm: SHA256, Digest: digest}},
		BuildTime:     1_700_000_000, Version: "0.1", Tool: digest,
		Inputs: []Resource{{URI: "pkg:deb/debian/x@1", Algorithm: SHA256, Digest: digest}, {URI: "pkg:golang/stdlib@1.26.0"}},
	}
}

func text(t *testing.T, b Build) []byte {
	var out bytes.Buffer
	require.NoError(t, Write(&out, b))
	return out.Bytes()
}

func TestAStatementIsReadByItsLibraryAndTheSameTwice(t *testing.T) {
	a := text(t, sample())
	require.Equal(t, string(a), string(text(t, sample())))

	var s intoto.Statement
	require.NoError(t, protojson.Unmarshal(a, &s))
	require.NoError(t, s.Validate())
	require.Equal(t, "https://in-toto.io/Statement/v1", s.Type)
	require.Equal(t, PredicateType, s.PredicateType)
	require.Equal(t, digest, s.Subject[1].Digest[Verity])
	inner, err := protojson.Marshal(s.Predicate)
	require.NoError(t, err)
	var p slsa.Provenance
	require.NoError(t, protojson.Unmarshal(inner, &p))
	require.NoError(t, p.Validate())
	require.Equal(t, BuilderID, p.RunDetails.Builder.Id)
	require.Len(t, p.BuildDefinition.ResolvedDependencies, 2)
	require.Equal(t, digest, p.RunDetails.Builder.BuilderDependencies[0].Digest[SHA256])
	require.Nil(t, p.RunDetails.Metadata.StartedOn, "a clock")
	require.Equal(t, digest, p.BuildDefinition.ExternalParameters.AsMap()["configuration"].(map[string]any)["cluster.yaml"].(map[string]any)["sha256"])
	require.NotContains(t, string(a), "sourceDateEpoch")
}

func TestAnotherInputIsAnotherInvocation(t *testing.T) {
	id := func(b Build) string {
		var s struct {
			Predicate struct {
				RunDetails struct{ Metadata struct{ InvocationID string } }
			}
		}
		require.NoError(t, json.Unmarshal(text(t, b), &s))
		return s.Predicate.RunDetails.Metadata.InvocationID
	}
	was := id(sample())
	require.Len(t, was, 36)
	for name, change := range map[string]func(b *Build){
		"configuration": func(b *Build) { b.Configuration[0].Digest = strings.Repeat("cd", 32) },
		"input":         func(b *Build) { b.Inputs = b.Inputs[:1] },
		"epoch":         func(b *Build) { b.Epoch = 5 },
		"tool":          func(b *Build) { b.Tool = strings.Repeat("cd", 32) },
	} {
		b := sample()
		change(&b)
		require.NotEqual(t, was, id(b), name)
	}
	b := sample()
	b.Subjects = b.Subjects[:1]
	require.Equal(t, was, id(b), "what comes out is not what goes in")
}

func TestWhatIsNoStatementIsAnError(t *testing.T) {
	for name, change := range map[string]func(b *Build){
		"nothing was built":        func(b *Build) { b.Subjects = nil },
		"a subject without hash":   func(b *Build) { b.Subjects[0].Digest = "" },
		"a hash of another form":   func(b *Build) { b.Inputs[0].Digest = "h1:x" },
		"a hash of a wrong length": func(b *Build) { b.Subjects[0].Digest = "abcd" },
	} {
		b := sample()
		change(&b)
		require.ErrorContains(t, Write(&bytes.Buffer{}, b), "make the provenance", name)
	}
}

// The example of in-toto's digest_set.md.
func TestASumOfAModuleAsADirHash(t *testing.T) {
	got, err := ModuleDigest("h1:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48=")
	require.NoError(t, err)
	require.Equal(t, "2a1bb6127fb481c60f67692e22285fb306f3c6ffe62075e0ccf674d7c3adcb8f", got)
	for _, bad := range []string{"", "h1:", "h1:####", "h2:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48=", "h1:Khu2"} {
		_, err := ModuleDigest(bad)
		require.Error(t, err, bad)
	}
}

func TestEachResourceIsThereOnce(t *testing.T) {
	a, b := Resource{Name: "a"}, Resource{Name: "b"}
	require.Equal(t, []Resource{a, b}, Unique([]Resource{b, a, b}))
}
