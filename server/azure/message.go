package azure

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// MaxMessageBytes bounds a message of a device, as in Azure.
const MaxMessageBytes = 256 << 10

// Property is a property of a message.
type Property struct{ Name, Value string }

// System properties that have an effect; others are ignored.
const (
	contentType     = "$.ct"
	contentEncoding = "$.ce"
	creationTime    = "$.ctime"
)

// maxProperties bounds the properties of a message.
const maxProperties = 100

// ParseProperties parses the property bag at the end of a topic: name=value&name=value, escaped as
// in a URL, or nothing.
func ParseProperties(bag string) ([]Property, error) {
	if bag = strings.TrimPrefix(strings.TrimSuffix(bag, "/"), "?"); bag == "" {
		return nil, nil
	}
	var list []Property
	for part := range strings.SplitSeq(bag, "&") {
		name, text, _ := strings.Cut(part, "=")
		name, err := url.PathUnescape(name)
		if err == nil {
			text, err = url.PathUnescape(text)
		}
		if err != nil || name == "" {
			return nil, fmt.Errorf("%w: the properties of a message must be name=value&…, escaped as in a URL, not %.100q", entity.ErrInvalid, part)
		}
		if list = append(list, Property{name, text}); len(list) > maxProperties {
			return nil, fmt.Errorf("%w: a message may have %d properties", entity.ErrInvalid, maxProperties)
		}
	}
	return list, nil
}

// Readings returns the readings of a message, and their payload in the form of
// entity.ParseReadings. The body must be JSON; application properties become further keys of each
// reading. Keys of the body take precedence. The error wraps entity.ErrInvalid.
func Readings(body []byte, properties []Property, now time.Time) ([]entity.Reading, []byte, error) {
	if len(body) > MaxMessageBytes {
		return nil, nil, fmt.Errorf("%w: a message must have at most %d bytes, not %d", entity.ErrInvalid, MaxMessageBytes, len(body))
	}
	if err := checkContent(properties); err != nil {
		return nil, nil, err
	}
	readings, err := entity.ParseReadings(body, now)
	if err != nil {
		return nil, nil, err
	}
	changed := false
	for _, p := range properties {
		if p.Name == creationTime {
			at, err := time.Parse(time.RFC3339, p.Value)
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %s must be a time as in RFC 3339, not %.40q", entity.ErrInvalid, creationTime, p.Value)
			}
			changed = setTime(readings, at.UnixMilli()) || changed
		}
		if strings.HasPrefix(p.Name, "$") {
			continue
		}
		for i := range readings {
			changed = addSample(&readings[i], p) || changed
		}
	}
	if !changed {
		return readings, body, nil
	}
	return readings, encodeReadings(readings), nil
}

// BatchReadings is like Readings, for several messages.
func BatchReadings(batch []Batched, now time.Time) (all []entity.Reading, payload []byte, err error) {
	for i := range batch {
		readings, own, err := Readings(batch[i].Body, batch[i].Properties, now)
		if err != nil {
			return nil, nil, err
		}
		all, payload = append(all, readings...), own
	}
	if len(batch) != 1 {
		payload = encodeReadings(all)
	}
	return all, payload, nil
}

// setTime sets the time of readings that have none to that of the message.
func setTime(readings []entity.Reading, ts int64) (changed bool) {
	for i := range readings {
		if r := &readings[i]; r.Arrived {
			r.TS, r.Arrived, changed = ts, false, true
		}
	}
	return changed
}

// addSample adds a property to a reading unless it contains the key.
func addSample(r *entity.Reading, p Property) bool {
	if slices.ContainsFunc(r.Values, func(s entity.Sample) bool { return s.Key == p.Name }) {
		return false
	}
	r.Values = append(r.Values, entity.Sample{Key: p.Name, Value: value.String(p.Value)})
	return true
}

// encodeReadings encodes readings in the form of entity.ParseReadings. Readings without a time stay
// without one.
func encodeReadings(readings []entity.Reading) []byte {
	dst := []byte{'['}
	for i := range readings {
		if i > 0 {
			dst = append(dst, ',')
		}
		if r := &readings[i]; r.Arrived && r.Number == 0 {
			dst = entity.AppendSamples(dst, r.Values)
		} else {
			dst = r.AppendJSON(dst)
		}
	}
	return append(dst, ']')
}

// checkContent refuses content that is declared to be anything but JSON in UTF-8.
func checkContent(properties []Property) error {
	for _, p := range properties {
		switch media, _, _ := strings.Cut(strings.ToLower(p.Value), ";"); {
		case p.Name == contentType && media != "application/json" && !strings.HasSuffix(media, "+json"):
			return fmt.Errorf("%w: %s must be application/json, not %.100q: the body of a message is readings", entity.ErrInvalid, contentType, p.Value)
		case p.Name == contentEncoding && media != "utf-8":
			return fmt.Errorf("%w: %s must be utf-8, not %.40q", entity.ErrInvalid, contentEncoding, p.Value)
		}
	}
	return nil
}

// Batched is a message of a batch over HTTP.
type Batched struct {
	Body       []byte
	Properties []Property
}

// applicationHeader is the prefix of headers with application properties.
const applicationHeader = "iothub-app-"

// ParseBatch parses a body of type application/vnd.microsoft.iothub.json: an array of
// {"body":"…","base64Encoded":true,"properties":{"iothub-app-name":"value"}}. By default a body is
// in Base64; the SDKs rely on that. The error wraps entity.ErrInvalid.
func ParseBatch(body []byte) ([]Batched, error) {
	var list []struct {
		Body       *string           `json:"body"`
		Base64     *bool             `json:"base64Encoded"`
		Properties map[string]string `json:"properties"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf(`%w: a batch must be like [{"body":"eyJ0IjoxfQ==","base64Encoded":true}]: %w`, entity.ErrInvalid, err)
	}
	batch := make([]Batched, len(list))
	for i := range list {
		m := &list[i]
		if m.Body == nil {
			return nil, fmt.Errorf("%w: message %d of the batch has no body", entity.ErrInvalid, i)
		}
		batch[i].Body = []byte(*m.Body)
		if m.Base64 == nil || *m.Base64 {
			var err error
			if batch[i].Body, err = base64.StdEncoding.DecodeString(*m.Body); err != nil {
				return nil, fmt.Errorf("%w: body of message %d must be Base64, or have base64Encoded false", entity.ErrInvalid, i)
			}
		}
		for name, text := range m.Properties {
			batch[i].Properties = append(batch[i].Properties, HeaderProperty(name, text)...)
		}
		slices.SortFunc(batch[i].Properties, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	}
	return batch, nil
}

// HeaderProperty returns the property of a message in an HTTP header, or nil for other headers.
func HeaderProperty(name, text string) []Property {
	name = strings.ToLower(name)
	switch own, ok := strings.CutPrefix(name, applicationHeader); {
	case ok && own != "":
		return []Property{{own, text}}
	case name == "iothub-contenttype":
		return []Property{{contentType, text}}
	case name == "iothub-contentencoding":
		return []Property{{contentEncoding, text}}
	case name == "iothub-creationtimeutc":
		return []Property{{creationTime, text}}
	default:
		return nil
	}
}
