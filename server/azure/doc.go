// Package azure is the layout of Azure IoT Hub: what its device SDKs say over MQTT and HTTP. A
// device is the entity with its id.
//
//   - Messages from a device are its readings.
//   - The twin's desired and reported properties are the sections desired and reported.
//   - A command goes out as a direct method where the client takes methods, and otherwise as a
//     message from the cloud to the device.
//
// A device logs in with a shared access signature, made with the symmetric key of its principal, or
// with the same credentials as other devices.
//
// https://learn.microsoft.com/azure/iot/iot-mqtt-connect-to-iot-hub
package azure
