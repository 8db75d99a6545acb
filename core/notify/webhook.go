package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/setpointd/setpoint/core/internal/outward"
)

// Webhook posts messages to an address, signed if there is a secret.
type Webhook struct {
	URL     string
	URLFile string // file with the address, if that is a secret; one of the two is set
	Secret  string // file with the secret; "": requests are not signed
	HTTP    HTTP
}

// The headers of a webhook's request.
const (
	HeaderTimestamp = "Setpoint-Timestamp"
	HeaderSignature = "Setpoint-Signature"
)

// minSecret is how short a secret may be, in bytes.
const minSecret = 16

// Sign returns the signature of a webhook's request: what its header says, of its timestamp, a dot, and its body.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

type webhook struct {
	Webhook
	caller caller
	now    func() time.Time
}

func (w *webhook) target() string {
	if w.URLFile != "" {
		return w.URLFile
	}
	return outward.Shown(w.URL)
}

func (w *webhook) deliver(ctx context.Context, b *batch) error {
	body, err := json.Marshal(b.message())
	if err != nil {
		return err
	}
	to := w.URL
	if w.URLFile != "" {
		if to, err = readSecret(w.URLFile); err != nil {
			return err
		}
	}
	header := http.Header{}
	if w.Secret != "" {
		secret, err := readSecret(w.Secret)
		if err != nil {
			return err
		}
		if len(secret) < minSecret {
			return fmt.Errorf("the secret in %s has fewer than %d characters", w.Secret, minSecret)
		}
		at := strconv.FormatInt(w.now().Unix(), 10)
		header.Set(HeaderTimestamp, at)
		header.Set(HeaderSignature, Sign([]byte(secret), at, body))
	}
	return w.caller.post(ctx, to, body, header)
}
