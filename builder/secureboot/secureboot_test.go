package secureboot

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"spore/builder/pechecksum"
	"spore/pki/authenticode"
	"spore/pki/siglist"
)

func TestTheSameProgramAndKeyGiveTheSameBytes(t *testing.T) {
	first, err := signer(t).SignPE(makeProgram(0))
	require.NoError(t, err)
	second, err := signer(t).SignPE(makeProgram(0))
	require.NoError(t, err)
	require.Equal(t, first, second)
	again, err := signer(t).SignPE(first)
	require.NoError(t, err)
	require.Equal(t, first, again, "signing what is signed replaces the signature")
}

func TestASignatureIsReadAsItWasMade(t *testing.T) {
	for name, extra := range map[string]int{"aligned": 0, "padded": 5, "odd": 1} {
		t.Run(name, func(t *testing.T) {
			signed, err := signer(t).SignPE(makeProgram(extra))
			require.NoError(t, err)
			require.Zero(t, len(signed)%8)
			list, err := authenticode.Signatures(bytes.NewReader(signed), int64(len(signed)))
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Empty(t, list[0].Problem)
			require.Equal(t, "CN=plant Secure Boot Signature Database Key", list[0].Subject)
			c, err := authenticode.Certificate(signed)
			require.NoError(t, err)
			require.True(t, c.Equal(signer(t).Certificate))
		})
	}
}

func TestStrippedIsWhatItWasBefore(t *testing.T) {
	before := makeProgram(0)
	pechecksum.Set(before, testOptional+optCheckSum)
	signed, err := signer(t).SignPE(before)
	require.NoError(t, err)
	after, err := Strip(signed)
	require.NoError(t, err)
	require.Equal(t, before, after)
	c, err := authenticode.Certificate(after)
	require.NoError(t, err)
	require.Nil(t, c)
	again, err := Strip(after)
	require.NoError(t, err)
	require.Equal(t, after, again)
}

func TestEveryChangedByteOfTheContentIsSeen(t *testing.T) {
	signed, err := signer(t).SignPE(makeProgram(8))
	require.NoError(t, err)
	end := int(binary.LittleEndian.Uint32(signed[testCertRow:]))
	for off := 0; off < end; off++ {
		if off >= testOptional+optCheckSum && off < testOptional+optCheckSum+4 {
			continue // no signature covers the checksum
		}
		changed := bytes.Clone(signed)
		changed[off] ^= 1
		list, err := authenticode.Signatures(bytes.NewReader(changed), int64(len(changed)))
		if err == nil && len(list) == 1 {
			require.NotEmpty(t, list[0].Problem, "byte %d", off)
		}
	}
}

func TestAChangedSignatureIsSeen(t *testing.T) {
	signed, err := signer(t).SignPE(makeProgram(0))
	require.NoError(t, err)
	begin := int(binary.LittleEndian.Uint32(signed[testCertRow:]))
	good := 0
	for off := begin; off < len(signed); off++ {
		changed := bytes.Clone(signed)
		changed[off] ^= 1
		list, err := authenticode.Signatures(bytes.NewReader(changed), int64(len(changed)))
		if err == nil && len(list) == 1 && list[0].Problem == "" && list[0].Fingerprint == authenticode.Fingerprint(signer(t).Certificate) {
			good++
		}
	}
	// Neither the versions, nor the lists of algorithms outside the signer, nor the padding decide about anything.
	require.Less(t, good, 80)
}

func TestWhoSignedAProgram(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	sign := func(s *Signer) []byte {
		out, err := s.SignPE(makeProgram(0))
		require.NoError(t, err)
		return out
	}
	// Two signatures: the entries of both tables, one after the other.
	both := func(first, second *Signer) []byte {
		a, b := sign(first), sign(second)
		p, err := authenticode.Read(bytes.NewReader(a), int64(len(a)))
		require.NoError(t, err)
		out, err := withTable(p, a, append(bytes.Clone(a[p.End:]), b[p.End:]...))
		require.NoError(t, err)
		return out
	}
	changed := sign(k.DB)
	changed[testHeaders+10]++
	for name, tc := range map[string]struct {
		program []byte
		err     string
	}{
		"by it":                         {sign(k.DB), ""},
		"by it and another":             {both(k.DB, k.KEK), ""},
		"by another and it":             {both(k.KEK, k.DB), ""},
		"by another":                    {sign(k.KEK), `it is signed by "CN=plant Secure Boot Key Exchange Key" (SHA-256 `},
		"by nobody":                     {makeProgram(0), "it is not signed"},
		"by it, and changed afterwards": {changed, "its signature is wrong: the program was changed after it was signed"},
		"by two others":                 {both(k.KEK, k.PK), `it is signed by "CN=plant Secure Boot Platform Key"`},
		"no program":                    {[]byte("text"), "not a PE file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := authenticode.CheckSigner(tc.program, k.DB.Certificate)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.err)
		})
	}
}

func TestASignatureOfAnotherProgramIsRefused(t *testing.T) {
	one, err := signer(t).SignPE(makeProgram(0))
	require.NoError(t, err)
	other := bytes.Clone(one)
	other[testHeaders+10]++
	_, err = authenticode.Certificate(other)
	require.ErrorContains(t, err, "the program was changed after it was signed")
}

func TestProgramsThatAreRefused(t *testing.T) {
	put := func(b []byte, off int, v uint32) []byte {
		binary.LittleEndian.PutUint32(b[off:], v)
		return b
	}
	good := func() []byte { return makeProgram(0) }
	signed, err := signer(t).SignPE(good())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		program []byte
		err     string
	}{
		"nothing":                     {nil, "too short"},
		"text":                        {bytes.Repeat([]byte("text"), 100), "its header is wrong"},
		"a header far inside":         {put(good(), dosNewHeader, 1<<30), "its header is wrong"},
		"no PE signature":             {put(good(), testPE, 0), "not a PE32+ file"},
		"32 bits":                     {put(good(), testOptional, 0x10b), "not a PE32+ file"},
		"no rows of directories":      {put(good(), testOptional+optDirectories, 4), "inconsistent"},
		"headers longer than any":     {put(good(), testOptional+optHeaders, 1<<20), "inconsistent"},
		"a gap before the sections":   {put(good(), testOptional+optHeaders, 512), "a gap between sections"},
		"a gap between the sections":  {put(good(), testTable+20, 2560), "a gap between sections"},
		"sections that overlap":       {put(good(), testTable+20, 1536), "a gap between sections"},
		"a section behind the end":    {put(good(), testTable+16, 4096), "ends before its sections do"},
		"a table that is not the end": {append(bytes.Clone(signed), 0), "certificate table is not its end"},
		"a table in the headers":      {put(put(good(), testCertRow, 512), testCertRow+4, 2048), "certificate table is not its end"},
		"cut short":                   {good()[:2000], "ends before its sections do"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := signer(t).SignPE(c.program)
			require.ErrorContains(t, err, c.err)
			_, err = Strip(c.program)
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	keyPEM, err := k.DB.KeyPEM()
	require.NoError(t, err)
	good := k.DB.CertificatePEM()
	s, err := NewSigner(keyPEM, good)
	require.NoError(t, err)
	require.True(t, s.Key.Equal(k.DB.Key))
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k.DB.Key)})
	_, err = NewSigner(pkcs1, k.DB.Certificate.Raw)
	require.NoError(t, err, "PKCS #1 and DER are taken too")

	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	curveDER, err := x509.MarshalPKCS8PrivateKey(curve)
	require.NoError(t, err)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	smallPEM, err := EncodeKey(small)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		key, certificate []byte
		err              string
	}{
		"no PEM":                   {[]byte("hunter2"), good, "the key is not PEM"},
		"a certificate as key":     {good, good, `holds a "CERTIFICATE"`},
		"a key as certificate":     {keyPEM, keyPEM, `holds a "PRIVATE KEY"`},
		"another's certificate":    {keyPEM, k.PK.CertificatePEM(), "does not belong to the key"},
		"an elliptic curve":        {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: curveDER}), good, "not an RSA key"},
		"too small a key":          {smallPEM, good, "1024 bits"},
		"a key that is cut short":  {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: curveDER[:20]}), good, "not in PKCS #8 form"},
		"an encrypted key":         {pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte{1}}), good, "age is taken"},
		"no certificate in a file": {keyPEM, []byte("x"), "read the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewSigner(c.key, c.certificate)
			require.ErrorContains(t, err, c.err)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestEachVariableIsSignedByWhomTheFirmwareAsksFor(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	by := map[string]*Signer{"PK": k.PK, "KEK": k.PK, "db": k.KEK, "noPK": k.PK}
	want := map[string]*Signer{"PK": k.PK, "KEK": k.KEK, "db": k.DB}
	require.Len(t, k.Variables, 4)
	for _, v := range k.Variables {
		list, err := CheckWrite(v.Auth, v.Name, by[v.File].Certificate)
		require.NoError(t, err, v.File)
		require.Equal(t, string(v.List), string(list))
		entries, err := siglist.Certificates(v.List)
		require.NoError(t, err)
		if want[v.File] == nil {
			require.Empty(t, entries)
			continue
		}
		require.Len(t, entries, 1)
		require.True(t, entries[0].Certificate.Equal(want[v.File].Certificate), v.File)

		_, err = CheckWrite(v.Auth, v.Name, k.DB.Certificate)
		require.ErrorContains(t, err, "not made with its certificate", v.File)
		changed := bytes.Clone(v.Auth)
		changed[len(changed)-1] ^= 1
		_, err = CheckWrite(changed, v.Name, by[v.File].Certificate)
		require.Error(t, err, v.File)
		later := bytes.Clone(v.Auth)
		later[0]++ // the year
		_, err = CheckWrite(later, v.Name, by[v.File].Certificate)
		require.Error(t, err, "the time is signed")
		_, err = CheckWrite(v.Auth, map[string]string{"PK": "KEK", "KEK": "db", "db": "dbx"}[v.Name], by[v.File].Certificate)
		require.Error(t, err, "a write of one variable is none of another")
	}
}

func TestThePlatformKeyIsTakenAwayLaterThanItCame(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	stamp := map[string]string{}
	for _, v := range k.Variables {
		stamp[v.File] = string(v.Auth[:16])
	}
	require.Equal(t, stamp["PK"], stamp["db"])
	require.Equal(t, stamp["PK"][6]+1, stamp["noPK"][6], "by a second: firmware refuses a write of the same time")
}

func TestCertificatesOfOthersAreInTheVariablesToo(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	other := siglist.Entry{Owner: uuid.MustParse("77fa9abd-0359-4d32-bd60-28f4e78f784b"), Certificate: k.PK.Certificate}
	vars, err := k.variables(uuid.New(), Options{Now: time.Unix(1_800_000_000, 0), DB: []siglist.Entry{other}, KEK: []siglist.Entry{other, other}})
	require.NoError(t, err)
	for name, n := range map[string]int{"PK": 1, "KEK": 3, "db": 2, "noPK": 0} {
		for _, v := range vars {
			if v.File == name {
				list, err := siglist.Certificates(v.List)
				require.NoError(t, err)
				require.Len(t, list, n, name)
				if n > 1 {
					require.Equal(t, other.Owner, list[n-1].Owner)
				}
			}
		}
	}
}

func FuzzSignatures(f *testing.F) {
	signed, err := signer(f).SignPE(makeProgram(3))
	require.NoError(f, err)
	f.Add(signed)
	f.Add(makeProgram(0))
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := authenticode.Signatures(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			require.LessOrEqual(t, len(list), 16)
			_, _ = authenticode.Certificate(data)
		}
		out, err := signer(t).SignPE(data)
		if err != nil {
			return
		}
		c, err := authenticode.Certificate(out)
		require.NoError(t, err, "what we sign we accept")
		require.True(t, c.Equal(signer(t).Certificate))
		bare, err := Strip(out)
		require.NoError(t, err)
		again, err := signer(t).SignPE(bare)
		require.NoError(t, err)
		require.Equal(t, out, again)
	})
}

func FuzzVariables(f *testing.F) {
	k, err := testKeys()
	require.NoError(f, err)
	for _, v := range k.Variables {
		f.Add(v.List)
		f.Add(v.Auth)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if list, err := siglist.Certificates(data); err == nil {
			again, err := siglist.Certificates(siglist.EncodeCertificates(list))
			require.NoError(t, err)
			require.Len(t, again, len(list))
		}
		_, _ = CheckWrite(data, "db", k.KEK.Certificate)
		_, _ = WrittenCertificates(data)
		_, _ = StoredVariables(data)
	})
}
