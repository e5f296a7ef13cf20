"""What is made for those who use vehicled as a library; they import it from `vehicled`."""
