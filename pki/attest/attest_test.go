package attest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-tpm/tpm2"
	"github.com/stretchr/testify/require"
)

// soft signs as a TPM does, with keys that are no TPM's: for what Verify says of forms, values and signatures. A real
// one is in agent/quote.
type soft struct {
	ek *rsa.PrivateKey
	ak *ecdsa.PrivateKey
	Keys
}

var makeSoft = sync.OnceValues(func() (*soft, error) {
	s := &soft{}
	var err error
	if s.ek, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return nil, err
	}
	if s.ak, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	ek := EKTemplate()
	ek.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{Buffer: s.ek.N.Bytes()})
	s.EK, s.AK = tpm2.Marshal(ek), tpm2.Marshal(akOf(point(&s.ak.PublicKey), akAttributes))
	return s, nil
})

// point is the point of a public key: X and Y, each of 32 bytes.
func point(key *ecdsa.PublicKey) []byte {
	b, err := key.Bytes()
	if err != nil {
		panic(err)
	}
	return b[1:]
}

func akOf(point []byte, attributes tpm2.TPMAObject) tpm2.TPMTPublic {
	ak := AKTemplate()
	ak.ObjectAttributes = attributes
	ak.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgECC, &tpm2.TPMSECCPoint{
		X: tpm2.TPM2BECCParameter{Buffer: point[:32]}, Y: tpm2.TPM2BECCParameter{Buffer: point[32:]},
	})
	return ak
}

func newSoft(t testing.TB) *soft {
	s, err := makeSoft()
	require.NoError(t, err)
	return s
}

func extend(value []byte, hashes ...[]byte) []byte {
	for _, h := range hashes {
		sum := sha256.Sum256(append(bytes.Clone(value), h...))
		value = sum[:]
	}
	return value
}

var zero = make([]byte, 32)

func hash(text string) []byte { sum := sha256.Sum256([]byte(text)); return sum[:] }

// quote is what the TPM says of registers.
func (s *soft) quote(t testing.TB, qualified []byte, registers [][]byte, change func(*tpm2.TPMSAttest)) (quote, signature []byte) {
	digest := sha256.Sum256(bytes.Join(registers, nil))
	a := tpm2.TPMSAttest{
		Magic: tpm2.TPMGeneratedValue, Type: tpm2.TPMSTAttestQuote, ExtraData: tpm2.TPM2BData{Buffer: qualified},
		Attested: tpm2.NewTPMUAttest(tpm2.TPMSTAttestQuote, &tpm2.TPMSQuoteInfo{PCRSelect: Selection(), PCRDigest: tpm2.TPM2BDigest{Buffer: digest[:]}}),
	}
	if change != nil {
		change(&a)
	}
	quote = tpm2.Marshal(a)
	sum := sha256.Sum256(quote)
	r, sv, err := ecdsa.Sign(rand.Reader, s.ak, sum[:])
	require.NoError(t, err)
	return quote, tpm2.Marshal(tpm2.TPMTSignature{SigAlg: tpm2.TPMAlgECDSA, Signature: tpm2.NewTPMUSignature(tpm2.TPMAlgECDSA, &tpm2.TPMSSignatureECC{
		Hash: tpm2.TPMAlgSHA256, SignatureR: tpm2.TPM2BECCParameter{Buffer: r.Bytes()}, SignatureS: tpm2.TPM2BECCParameter{Buffer: sv.Bytes()},
	})})
}

const (
	subject = "aaaa-bbbb-cccc-dddd-eeee"
	cmdline = "roothash=aa ro quiet"
)

var nonce = bytes.Repeat([]byte{7}, NonceSize)

// want is a folder with a UKI and an iPXE.
func want() Want {
	return Want{
		Programs: map[[32]byte]string{[32]byte(hash("uki")): "spore.efi", [32]byte(hash("ipxe")): "snponly.efi", [32]byte(hash("kernel")): "vmlinuz"},
		UKI:      "spore.efi", Measured: [][32]byte{[32]byte(hash("measured"))}, Cmdline: cmdline, More: []string{"spore.url=", "spore.install="},
	}
}

// evidence is that of a machine that started what is wanted, by HTTP boot.
type machine struct {
	started   [][]byte
	measured  []byte
	outside   []byte
	cmdline   string
	subject   string
	nonce     []byte
	change    func(*tpm2.TPMSAttest)
	afterward func(*Evidence)
}

func good() machine {
	return machine{
		started: [][]byte{hash("Calling EFI Application from Boot Option"), hash("\x00\x00\x00\x00"), hash("uki"), hash("kernel")}, measured: hash("measured"),
		outside: zero, cmdline: cmdline, subject: subject, nonce: nonce,
	}
}

// given is register 12 after a command line.
func given(text string) []byte {
	var b []byte
	for _, u := range append(utf16.Encode([]rune(text)), 0) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return extend(zero, hash(string(b)))
}

func TestRemarksOfTheFirmwareAreNoUKI(t *testing.T) {
	s, w, m := newSoft(t), want(), good()
	w.UKI = ""
	m.started = m.started[:2]
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, m), nonce, subject, w), "the firmware has not started")
}

func (s *soft) answers(t testing.TB, m machine) Evidence {
	e := Evidence{Nonce: m.nonce, Registers: [][]byte{extend(zero, m.started...), m.measured, m.outside}, Started: m.started, Cmdline: m.cmdline}
	e.Quote, e.Signature = s.quote(t, Qualify(m.nonce, m.subject), e.Registers, m.change)
	if m.afterward != nil {
		m.afterward(&e)
	}
	return e
}

func TestAQuoteSaysWhatWasStarted(t *testing.T) {
	s := newSoft(t)
	byIPXE := func(words string) func(*machine) {
		return func(m *machine) {
			m.started = append(m.started[:2:2], hash("ipxe"), hash("uki"), hash("kernel"))
			m.cmdline, m.outside = words, given(words)
		}
	}
	for name, tt := range map[string]struct {
		change func(*machine)
		err    string
	}{
		"the UKI by HTTP boot":                 {func(*machine) {}, ""},
		"a stub that starts no kernel by name": {func(m *machine) { m.started = m.started[:3] }, ""},
		"iPXE and its command line":            {byIPXE("ro " + cmdline + " spore.url=http://10.0.0.1/ spore.install=DISK1"), ""},

		"another boot loader before it":                {func(m *machine) { m.started = append([][]byte{hash("evil")}, m.started...) }, "the firmware started a program that is not served here, with the Authenticode hash " + hexOf("evil")},
		"another system that measures the UKI's parts": {func(m *machine) { m.started = [][]byte{hash("evil")} }, "a program that is not served here"},
		"a list that leaves a program out": {func(m *machine) {
			m.started = append([][]byte{hash("evil")}, m.started...)
			m.afterward = func(e *Evidence) { e.Started = e.Started[1:] }
		}, "does not match its PCR 4"},
		"iPXE and nothing else":                      {func(m *machine) { m.started = [][]byte{hash("ipxe")} }, "the firmware has not started spore.efi"},
		"nothing, as with BIOS":                      {func(m *machine) { m.started = nil }, "the firmware has not started spore.efi"},
		"an error in place of a separator":           {func(m *machine) { m.started[1] = hash("\x01\x00\x00\x00") }, "a program that is not served here"},
		"another build":                              {func(m *machine) { m.measured = hash("other") }, "another build of it was started"},
		"a command line of somebody else":            {byIPXE("ro roothash=evil ro quiet"), "a command line that is not served"},
		"a shorter command line":                     {byIPXE("ro roothash=aa"), "a command line that is not served"},
		"a word more":                                {byIPXE("ro " + cmdline + " spore.console"), `the word "spore.console" on its command line`},
		"a word that the kernel alone takes for one": {byIPXE("ro " + cmdline + " spore.url=http://10.0.0.1/\u00e0spore.console"), "other characters than printable ASCII"},
		"a line break before a word":                 {byIPXE("ro " + cmdline + " spore.url=http://10.0.0.1/\vspore.console"), "other characters than printable ASCII"},
		"a command line that is not the kernel's": {func(m *machine) {
			byIPXE("ro " + cmdline + " spore.console")(m)
			m.afterward = func(e *Evidence) { e.Cmdline = "ro " + cmdline }
		}, "more than a command line, or a command line that differs from the kernel's"},
		"credentials beside the UKI": {func(m *machine) { m.outside = hash("x") }, "more than a command line"},

		"an old answer": {func(m *machine) { m.nonce = bytes.Repeat([]byte{8}, NonceSize) }, "an answer to another question"},
		"an old answer with the nonce of today": {func(m *machine) {
			m.nonce = bytes.Repeat([]byte{8}, NonceSize)
			m.afterward = func(e *Evidence) { e.Nonce = nonce }
		}, "the quote is for another machine, or an answer to another question"},
		"another machine's key": {func(m *machine) { m.subject = "ffff-bbbb-cccc-dddd-eeee" }, "the quote is for another machine"},
		"registers that were not quoted": {func(m *machine) {
			m.measured = hash("other")
			m.afterward = func(e *Evidence) { e.Registers[1] = hash("measured") }
		}, "differ from the values that were sent"},
		"a quote that was changed": {func(m *machine) { m.afterward = func(e *Evidence) { e.Quote[len(e.Quote)-1] ^= 1 } }, "not signed by the TPM's key"},
		"other registers": {func(m *machine) {
			m.change = func(a *tpm2.TPMSAttest) {
				info, err := a.Attested.Quote()
				require.NoError(t, err)
				info.PCRSelect.PCRSelections[0].PCRSelect = tpm2.PCClientCompatible.PCRs(0, 11, 12)
				a.Attested = tpm2.NewTPMUAttest(tpm2.TPMSTAttestQuote, info)
			}
		}, "over other registers than PCR [4 11 12]"},
		"another bank": {func(m *machine) {
			m.change = func(a *tpm2.TPMSAttest) {
				info, err := a.Attested.Quote()
				require.NoError(t, err)
				info.PCRSelect.PCRSelections[0].Hash = tpm2.TPMAlgSHA1
				a.Attested = tpm2.NewTPMUAttest(tpm2.TPMSTAttestQuote, info)
			}
		}, "over other registers"},
		"something else that the TPM signed": {func(m *machine) {
			m.change = func(a *tpm2.TPMSAttest) {
				a.Type = tpm2.TPMSTAttestTime
				a.Attested = tpm2.NewTPMUAttest(tpm2.TPMSTAttestTime, &tpm2.TPMSTimeAttestInfo{})
			}
		}, "the signed data is not a quote"},
		"bytes that are no quote": {func(m *machine) { m.afterward = func(e *Evidence) { e.Quote, e.Signature = []byte("x"), []byte("x") } }, "its signature cannot be read"},
		"no registers":            {func(m *machine) { m.afterward = func(e *Evidence) { e.Registers = nil } }, "0 registers"},
		"a short hash":            {func(m *machine) { m.afterward = func(e *Evidence) { e.Started = [][]byte{{1}} } }, "a hash of 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := good()
			tt.change(&m)
			err := Verify(s.Keys, s.answers(t, m), nonce, subject, want())
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.err)
		})
	}
}

func hexOf(text string) string {
	const digits = "0123456789abcdef"
	var out []byte
	for _, b := range hash(text) {
		out = append(out, digits[b>>4], digits[b&15])
	}
	return string(out)
}

func TestAKeyThatSignsAnythingVouchesForNothing(t *testing.T) {
	s := *newSoft(t)
	free := akAttributes
	free.Restricted = false
	s.AK = tpm2.Marshal(akOf(point(&s.ak.PublicKey), free))
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, good()), nonce, subject, want()), "may sign data that the TPM has not made")

	movable := akAttributes
	movable.FixedTPM = false
	s.AK = tpm2.Marshal(akOf(point(&s.ak.PublicKey), movable))
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, good()), nonce, subject, want()), "may sign data that the TPM has not made")

	s.AK = tpm2.Marshal(akOf(bytes.Repeat([]byte{5}, 64), akAttributes))
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, good()), nonce, subject, want()), "not a point on the curve")

	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	s.AK = tpm2.Marshal(akOf(point(&other.PublicKey), akAttributes))
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, good()), nonce, subject, want()), "not signed by the TPM's key")

	s.AK = append(bytes.Clone(newSoft(t).AK), 0)
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, good()), nonce, subject, want()), "a key with other attributes")

	s.AK = s.EK
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, good()), nonce, subject, want()), "a key of another type")

	s.AK = []byte{1}
	require.ErrorContains(t, Verify(s.Keys, s.answers(t, good()), nonce, subject, want()), "it cannot be read")
}

func TestWhatIsWrappedIsForOneTPM(t *testing.T) {
	s := newSoft(t)
	data := []byte("a bundle")
	w, err := Wrap(data, s.Keys)
	require.NoError(t, err)
	require.True(t, IsWrapped(w))
	require.False(t, IsWrapped([]byte("age-encryption.org/v1\n")))
	require.NotContains(t, string(w), "bundle")
	_, err = Unwrap(w, func(_, _ []byte) ([]byte, error) { return nil, errors.New("TPM_RC_INTEGRITY") })
	require.EqualError(t, err, "this machine's TPM does not open it: TPM_RC_INTEGRITY")
	_, err = Unwrap(w, func(_, _ []byte) ([]byte, error) { return make([]byte, 32), nil })
	require.EqualError(t, err, "it was changed on the way")
	_, err = Unwrap(w, func(_, _ []byte) ([]byte, error) { return nil, nil })
	require.ErrorContains(t, err, "a key of 0 bytes")
	_, err = Unwrap([]byte(`{"sporeWrapped":2}`), nil)
	require.ErrorContains(t, err, "in an unknown form")

	for name, ek := range map[string][]byte{"no key": {1}, "a key that signs": s.AK} {
		_, err = Wrap(data, Keys{EK: ek, AK: s.AK})
		require.ErrorIs(t, err, ErrForm, name)
	}
}

// certified is the certificate of an EK, as makers write it: critical names that x509 does not know, and an end that
// has passed.
func certified(t *testing.T, key any, by *x509.Certificate, with any) []byte {
	t.Helper()
	names, err := asn1.Marshal([]asn1.RawValue{{Class: 2, Tag: 4, IsCompound: true, Bytes: []byte{0x30, 0}}})
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Unix(1_400_000_000, 0), NotAfter: time.Unix(1_500_000_000, 0),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Critical: true, Value: names}},
	}, by, key, with)
	require.NoError(t, err)
	return der
}

func TestACertificateSaysWhoseTPMItIs(t *testing.T) {
	s := *newSoft(t)
	maker := func(name string) (*x509.Certificate, *ecdsa.PrivateKey, *x509.CertPool) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(1_300_000_000, 0), NotAfter: time.Unix(2_500_000_000, 0),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		require.NoError(t, err)
		c, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		pool := x509.NewCertPool()
		pool.AddCert(c)
		return c, key, pool
	}
	c, key, roots := maker("maker")
	_, _, others := maker("another maker")
	require.EqualError(t, s.CheckCertificate(roots, nil), "the TPM has no certificate of its maker")
	s.Certificate = certified(t, &s.ek.PublicKey, c, key)
	require.NoError(t, s.CheckCertificate(roots, nil))
	require.ErrorContains(t, s.CheckCertificate(others, nil), "not signed by a maker that you trust")
	s.Certificate = certified(t, &s.ak.PublicKey, c, key)
	require.ErrorContains(t, s.CheckCertificate(roots, nil), "is for another key")
	s.Certificate = []byte("x")
	require.ErrorContains(t, s.CheckCertificate(roots, nil), "read the certificate")
}

func TestAFingerprintIsTheEKs(t *testing.T) {
	require.Regexp(t, `^[a-z2-7]{4}(-[a-z2-7]{4}){7}$`, Fingerprint([]byte("ek")))
	require.NotEqual(t, Fingerprint([]byte("ek")), Fingerprint([]byte("eK")))
}

func FuzzVerify(f *testing.F) {
	s := newSoft(f)
	data, err := json.Marshal(s.answers(f, good()))
	require.NoError(f, err)
	f.Add(data, s.EK, s.AK)
	f.Add([]byte(`{}`), []byte{}, []byte{0})
	f.Fuzz(func(t *testing.T, data, ek, ak []byte) {
		var e Evidence
		if json.Unmarshal(data, &e) != nil {
			return
		}
		if Verify(Keys{EK: ek, AK: ak}, e, nonce, subject, want()) == nil {
			require.Error(t, Verify(Keys{EK: ek, AK: ak}, e, nonce, "another subject", want()))
			require.Error(t, Verify(Keys{EK: ek, AK: ak}, e, make([]byte, NonceSize), subject, want()))
		}
		_, _ = Wrap([]byte("x"), Keys{EK: ek, AK: ak})
		_, _ = Unwrap(data, func(_, _ []byte) ([]byte, error) { return make([]byte, 32), nil })
	})
}
