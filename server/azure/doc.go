// Package azure is the layout of Azure IoT Hub, for its device SDKs over MQTT and HTTP. A device is
// the entity with its id.
//
//   - Messages from a device are its readings.
//   - The twin's desired and reported properties are the sections desired and reported.
//   - A command is sent as a direct method if the client subscribes to methods, and otherwise as a cloud-to-device message.
//
// A device logs in with a shared access signature, made with the symmetric key of its principal, or
// with the same credentials as other devices.
//
// https://learn.microsoft.com/azure/iot/iot-mqtt-connect-to-iot-hub
package azure
